/** How an exec is refused on a box that is gone, stopped or in between, in any order of events. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { inProcess, type TestRunner, until, withoutBwrap } from '../kit.ts'

describe('an exec on a box that cannot take it', { skip: withoutBwrap }, async () => {
  test('a box that never existed is 404 box_not_found', async (t) => {
    const runner = await inProcess(t)
    const answer = await runner.call('POST', 'boxes/nope/exec', { command: ['true'] })
    assert.deepEqual([answer.status, answer.json.category], [404, 'box_not_found'])
    assert.equal(answer.headers.get('content-type'), 'application/problem+json')
    assert.equal(answer.json['requestId'], answer.headers.get('x-request-id'))
  })

  test('a removed box is 404, and so is removing it again', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    assert.equal((await runner.call('DELETE', 'boxes/b1')).status, 204)
    const answer = await runner.call('POST', 'boxes/b1/exec', { command: ['true'] })
    assert.deepEqual([answer.status, answer.json.category], [404, 'box_not_found'])
    assert.equal((await runner.call('DELETE', 'boxes/b1')).status, 404)
  })

  test('a stopped box is 409 box_stopped with its state, and works again after a start', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    assert.equal((await runner.call('POST', 'boxes/b1/stop')).json['state'], 'stopped')
    const answer = await runner.call('POST', 'boxes/b1/exec', { command: ['true'] })
    assert.deepEqual([answer.status, answer.json.category, answer.json['boxState']], [409, 'box_stopped', 'stopped'])
    assert.equal(answer.json['error'], 'box b1 is stopped; start it, or create it with autoStart')
    assert.equal((await runner.call('POST', 'boxes/b1/start')).json['state'], 'running')
    assert.equal((await runner.run('b1', 'exit 7')).exec.exit?.code, 7)
  })

  test('a stopped box with autoStart starts for the exec, with the files that it had', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1', autoStart: true })
    await runner.run('b1', 'echo kept >kept')
    await runner.call('POST', 'boxes/b1/stop')
    assert.equal((await runner.run('b1', 'cat kept')).stdout, 'kept\n')
    assert.equal((await runner.call('GET', 'boxes/b1')).json['state'], 'running')
  })

  test('a box that is stopping is 409 box_invalid_state, and its exec ends as box_stopped', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: "trap '' TERM; echo up; while :; do sleep 0.1; done",
    })
    for await (const event of runner.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    const stopping = runner.call('POST', 'boxes/b1/stop')
    const seen: unknown[] = []
    let last = await runner.call('POST', 'boxes/b1/exec', { command: ['true'] })
    while (last.json.category === 'box_invalid_state') {
      seen.push(last.json['boxState'])
      last = await runner.call('POST', 'boxes/b1/exec', { command: ['true'] })
    }
    assert.ok(seen.length > 0 && seen.every((state) => state === 'stopping'), JSON.stringify(seen))
    assert.deepEqual([last.status, last.json.category], [409, 'box_stopped'])
    assert.equal((await stopping).json['state'], 'stopped')
    const { exit } = await runner.client.getExec('b1', 'e1')
    assert.equal(exit?.cause, 'box_stopped')
  })

  test('a box that is stopped or removed while an exec waits for its pipes refuses it, and nothing runs', async (t) => {
    const folder = tempFolder(t)
    const [began, go] = [join(folder, 'began'), join(folder, 'go')]
    const slow = `#!/bin/sh\n: >${began}\nwhile ! [ -e ${go} ]; do sleep 0.02; done\nexec /usr/bin/mkfifo "$@"\n`
    writeFileSync(join(folder, 'mkfifo'), slow, { mode: 0o755 })
    for (const [method, path, refusal] of [
      ['DELETE', 'boxes/b1', [404, 'box_not_found']],
      ['POST', 'boxes/b1/stop', [409, 'box_stopped']],
    ] as const) {
      const environment = { ...process.env, PATH: `${folder}:${process.env['PATH']}` }
      const runner = await inProcess(t, { environment })
      await runner.box({ id: 'b1' })
      const exec = runner.call('POST', 'boxes/b1/exec', { execId: 'e1', command: ['true'] })
      await until(() => existsSync(began), Boolean)
      assert.ok((await runner.call(method, path)).status < 300)
      writeFileSync(go, '')
      const { status, json, text } = await exec
      assert.deepEqual([status, json.category], refusal, text)
      assert.equal((await runner.call('GET', 'boxes/b1/execs/e1')).status, 404)
      for (const mark of [began, go]) rmSync(mark)
    }
  })

  test('in 96 interleavings of exec with stop, start and remove no response is a 5xx, and every exec ends', async (t) => {
    const runner = await inProcess(t)
    const allowed = new Set([200, 201, 204, 404, 409])
    let round = 0
    const steps = fc.array(fc.constantFrom('exec', 'exec', 'exec', 'stop', 'start', 'remove', 'wait'), {
      minLength: 3,
      maxLength: 8,
    })
    const oneBox = async (plan: readonly string[]): Promise<void> => {
      const id = `b${(round += 1)}`
      await runner.box({ id })
      const answers = await Promise.all(plan.map((step, i) => act(runner, id, step, `e${i}`)))
      for (const answer of answers) assert.ok(allowed.has(answer.status), `${answer.status} ${answer.text}`)
      const left = await runner.call('GET', `boxes/${id}/execs`)
      if (left.status === 404) return
      const { execs } = left.json as { execs: { execId: string }[] }
      for (const { execId } of execs) assert.notEqual((await runner.client.waitExec(id, execId)).exit, null)
      await runner.call('DELETE', `boxes/${id}`)
    }
    const eight = fc.array(steps, { minLength: 8, maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(eight, async (plans) => void (await Promise.all(plans.map(oneBox)))),
      { numRuns: 12 },
    )
  })
})

async function act(
  runner: TestRunner,
  id: string,
  step: string,
  execId: string,
): Promise<{ status: number; text: string }> {
  switch (step) {
    case 'exec':
      return runner.call('POST', `boxes/${id}/exec`, { execId, command: ['true'] })
    case 'wait': {
      const answer = await runner.call('GET', `boxes/${id}/execs/e0/wait?timeoutMs=2000`)
      return answer.status === 202 ? { status: 200, text: '' } : answer
    }
    case 'remove':
      return runner.call('DELETE', `boxes/${id}`)
    default:
      return runner.call('POST', `boxes/${id}/${step}`)
  }
}
