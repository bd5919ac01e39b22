/** Every refusal over raw HTTP with its exact status and category; identity and epoch; input; files; load. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Fault } from '@breakfall/faults'
import { systemClock } from '../../src/lib/clock.ts'
import { createRunnerClient } from '../../src/client/index.ts'
import { RUNNER_ROUTES } from '../../src/contract/routes.ts'
import { asProgram, inProcess, type TestRunner, until, withoutBwrap } from '../kit.ts'

const workspaceOf = (runner: TestRunner, id: string): string => join(runner.stateDir, `boxes/default/${id}/workspace`)

type Operation = {
  readonly operationId: string
  readonly parameters: readonly { readonly name: string; readonly in: string }[]
  readonly responses: Readonly<Record<string, { readonly description: string }>>
}

describe('refusals', { skip: withoutBwrap }, async () => {
  test('each refusal has its status, category and problem document, and creates nothing', async (t) => {
    const runner = await inProcess(t, { boxesMax: 2 })
    await runner.box({ id: 'b1', limits: { execsMax: 1 } })
    const workspace = workspaceOf(runner, 'b1')
    writeFileSync(join(workspace, 'plain'), 'text')
    writeFileSync(join(workspace, 'script'), '#!/no/such/thing\n')
    chmodSync(join(workspace, 'script'), 0o755)
    mkdirSync(join(workspace, 'folder'))
    const exec = 'boxes/b1/exec'
    const rows: readonly (readonly [string, string, unknown, number, string, string?])[] = [
      ['POST', exec, { command: ['no-such-program'] }, 422, 'spawn_failed', 'not_found'],
      ['POST', exec, { command: ['./plain'] }, 422, 'spawn_failed', 'not_executable'],
      ['POST', exec, { command: ['./folder'] }, 422, 'spawn_failed', 'not_executable'],
      ['POST', exec, { command: ['./script'] }, 422, 'spawn_failed', 'bad_interpreter'],
      ['POST', exec, { command: ['true'], cwd: 'nowhere' }, 422, 'spawn_failed', 'cwd_missing'],
      ['POST', exec, { command: ['true'], cwd: 'plain' }, 422, 'spawn_failed', 'cwd_not_directory'],
      ['POST', exec, { command: ['true', 'x'.repeat(131_072)] }, 422, 'spawn_failed', 'argument_too_long'],
      ['POST', exec, { command: ['a\0b'] }, 400, 'invalid_request'],
      ['POST', exec, { command: ['true'], env: { '1A': 'x' } }, 400, 'invalid_request'],
      ['POST', exec, { command: ['true'], tty: true }, 400, 'invalid_request'],
      ['POST', exec, { command: ['true'], timeoutMs: 0 }, 400, 'invalid_request'],
      ['POST', exec, { command: ['true'], shell: 'true' }, 400, 'invalid_request'],
      ['POST', exec, {}, 400, 'invalid_request'],
      ['POST', 'boxes', { limits: { cpus: 0 } }, 400, 'invalid_request'],
      ['POST', 'boxes', { limits: { cpus: 1.5 } }, 400, 'invalid_request'],
      ['POST', 'boxes', { limits: { cpus: '2' } }, 400, 'invalid_request'],
      ['POST', 'boxes', { limits: { cpus: 999 } }, 400, 'invalid_request'],
      ['POST', 'boxes', { limits: { memoryMb: -1 } }, 400, 'invalid_request'],
      ['POST', 'boxes', { limits: { memoryMb: 65_000 } }, 429, 'quota_exceeded'],
      ['POST', 'boxes', { colour: 'red' }, 400, 'invalid_request'],
      ['POST', 'boxes', { id: '../x' }, 400, 'invalid_request'],
      ['POST', 'boxes', { id: 'b1' }, 409, 'box_already_exists'],
      ['GET', 'boxes/b1/execs/none', undefined, 404, 'exec_not_found'],
      ['GET', 'boxes/b1/execs/none/events', undefined, 404, 'exec_not_found'],
      ['POST', 'boxes/b1/execs/none/kill', undefined, 404, 'exec_not_found'],
      ['GET', 'boxes/b1/files/none', undefined, 404, 'file_not_found'],
      ['GET', 'boxes/b1/files/folder', undefined, 400, 'invalid_request'],
      ['GET', 'boxes/none', undefined, 404, 'box_not_found'],
      ['PATCH', 'boxes/b1', undefined, 405, 'method_not_allowed'],
      ['GET', '/v2/nothing', undefined, 404, 'not_found'],
      ['GET', 'boxes?colour=red', undefined, 400, 'invalid_request'],
      ['GET', 'boxes/b1/execs/none/wait?timeoutMs=-1', undefined, 404, 'exec_not_found'],
    ]
    for (const [method, path, body, status, category, reason] of rows) {
      const answer = await runner.call(method, path, body)
      const shown = `${method} ${path} ${JSON.stringify(body)?.slice(0, 80)}: ${answer.text.slice(0, 300)}`
      assert.deepEqual(
        [answer.status, answer.json.category, answer.json['reason']],
        [status, category, reason ?? (status === 405 ? answer.json['reason'] : undefined)],
        shown,
      )
      assert.equal(answer.json['requestId'], answer.headers.get('x-request-id'), shown)
      if (status === 400 && category === 'invalid_request' && method === 'POST')
        assert.ok((answer.json['errors'] as unknown[]).length > 0, shown)
    }
    assert.deepEqual((await runner.client.listExecs('b1')).length, 0)
    assert.equal((await runner.client.listBoxes()).length, 1)
    await runner.box({ id: 'b2' })
    assert.equal((await runner.call('POST', 'boxes', { id: 'b3' })).status, 429)
    await runner.call('POST', exec, { execId: 'long', command: ['sleep', '100'] })
    const over = await runner.call('POST', exec, { execId: 'more', command: ['true'] })
    assert.deepEqual([over.status, over.json.category], [429, 'quota_exceeded'])
    assert.equal((await runner.call('GET', 'boxes/b1/execs/more')).status, 404)
  })

  test('a check returns what a box would be, or why it is refused, and creates nothing', async (t) => {
    const runner = await inProcess(t)
    const box = await runner.client.checkBox({ id: 'b1', env: { A: '1' } })
    assert.deepEqual([box.id, box.state, box.workspace.kind], ['b1', 'creating', 'private'])
    const refused = await runner.call('POST', 'boxes/check', { workspace: '/etc' })
    assert.deepEqual([refused.status, refused.json.category], [400, 'invalid_request'])
    assert.equal((await runner.call('POST', 'boxes/check', { workspce: '/etc' })).status, 400)
    assert.deepEqual(await runner.client.listBoxes(), [])
  })

  test('a runner that ends has deleted the files of the boxes that were removed', async (t) => {
    const runner = await inProcess(t)
    await runner.client.createBox({ id: 'b1' })
    for (let nr = 0; nr < 5_000; nr += 1) writeFileSync(join(workspaceOf(runner, 'b1'), `${nr}`), '')
    await runner.client.removeBox('b1')
    await runner.close()
    assert.deepEqual(readdirSync(join(runner.stateDir, 'trash')), [])
  })

  test('the OpenAPI document has every route, and all its references resolve', async (t) => {
    const runner = await inProcess(t)
    const document = (await runner.call('GET', '/v1/openapi.json')).json
    const paths = document['paths'] as Record<string, Record<string, Operation>>
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.values(methods).map((operation) => ({ path, ...operation })),
    )
    assert.deepEqual(operations.map(({ operationId }) => operationId).toSorted(), Object.keys(RUNNER_ROUTES).toSorted())
    for (const { path, operationId, parameters, responses } of operations) {
      const inPath = parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)
      const wanted = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as string)
      assert.deepEqual(inPath.toSorted(), wanted.toSorted(), operationId)
      for (const [status, answer] of Object.entries(responses))
        assert.ok(/^[2-5]\d\d$/.test(status) && answer.description !== '', `${operationId} ${status}`)
    }
    const references = Array.from(JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g), ([, to]) => to as string)
    assert.ok(references.length > 0)
    for (const to of new Set(references)) {
      const found = to
        .split('/')
        .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], document)
      assert.notEqual(found, undefined, to)
    }
  })
})

describe('files', { skip: withoutBwrap }, async () => {
  test('no path leads out of the workspace: dots, absolute paths, links, and links swapped in meanwhile', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const workspace = workspaceOf(runner, 'b1')
    const outside = tempFolder(t, 'outside')
    writeFileSync(join(outside, 'secret'), 'outside')
    symlinkSync(outside, join(workspace, 'out'))
    symlinkSync(join(outside, 'secret'), join(workspace, 'leak'))
    for (const path of [
      '..%2f..%2fbox.json',
      '%2fetc%2fpasswd',
      'a%2f..%2f..%2fbox.json',
      'leak',
      'out%2fsecret',
      'out/secret',
      'a%00b',
    ]) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        if (path === 'leak' && method !== 'GET') continue // the link itself may be replaced or removed
        const answer = await runner.call(method, `boxes/b1/files/${path}`, method === 'PUT' ? 'x' : undefined)
        assert.ok(answer.status === 400 || answer.status === 404, `${method} ${path}: ${answer.status} ${answer.text}`)
      }
    }
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'swap',
      shell: `while :; do mkdir -p d; rm -rf d; ln -s ${outside} d; rm d; done`,
      merge: true,
    })
    let leaks = 0
    for (let i = 0; i < 150; i += 1) {
      if ((await runner.call('GET', 'boxes/b1/files/d/secret')).text === 'outside') leaks += 1
      await runner.call('PUT', 'boxes/b1/files/d/planted', 'x')
      await runner.call('PUT', 'boxes/b1/files/d/secret', 'overwritten')
    }
    assert.equal(leaks, 0)
    assert.deepEqual(readdirSync(outside), ['secret'])
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'outside')
    await runner.call('POST', 'boxes/b1/execs/swap/kill')
    rmSync(join(workspace, 'd'), { recursive: true, force: true })
  })
})

describe('the service', { skip: withoutBwrap }, async () => {
  test('answers health while 500 execs are started at once, and all of them end', async (t) => {
    const runner = await asProgram(t, join(tempFolder(t), 'state'), [
      '--allow-isolation',
      'process',
      '--isolation',
      'process',
    ])
    await runner.box({ id: 'b1', limits: { execsMax: 500 } })
    const all = Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        runner.client.startExec('b1', { execId: `e${i}`, command: ['echo', String(i)] }),
      ),
    )
    let answered = 0
    let slowestMs = 0
    let done = false
    const asking = (async () => {
      while (!done) {
        const from = performance.now()
        assert.equal((await runner.call('GET', '/v1/health')).status, 200)
        slowestMs = Math.max(slowestMs, performance.now() - from)
        answered += 1
      }
    })()
    await all
    const ends = await Promise.all(Array.from({ length: 500 }, (_, i) => runner.client.waitExec('b1', `e${i}`)))
    done = true
    await asking
    assert.ok(ends.every(({ exit, stdoutBytes }, i) => exit?.code === 0 && stdoutBytes === String(i).length + 1))
    assert.ok(answered > 20, `${answered} answers, the slowest after ${slowestMs} ms`)
    t.diagnostic(`${answered} health answers, the slowest after ${Math.round(slowestMs)} ms`)
    const metrics = (await runner.call('GET', '/metrics')).text
    assert.match(metrics, /breakfall_runner_execs_total\{cause="exited"\} 500/)
  })

  test('retention drops old output with an explicit gap and keeps the record', async (t) => {
    const runner = await inProcess(t, { retention: { bytesPerBox: 1_000 } })
    await runner.box({ id: 'b1' })
    await runner.run('b1', {
      execId: 'old',
      shell: 'head -c 900 /dev/zero; sleep 0.05; echo x >&2; sleep 0.05; echo last',
    })
    const before = await runner.events('b1', 'old')
    await runner.run('b1', { execId: 'new', shell: 'head -c 800 /dev/zero' })
    const events = await until(
      () => runner.events('b1', 'old'),
      (list) => list.some(({ type }) => type === 'gap'),
    )
    assert.deepEqual(
      events.map((event) => (event.type === 'gap' ? [event.type, event.stream, event.from, event.to] : [event.type])),
      [['start'], ['gap', 'stderr', 0, 2], ['gap', 'stdout', 0, 905], ['exit']],
    )
    assert.equal(events.at(-1)?.seq, before.at(-1)?.seq)
    assert.equal((await runner.call('GET', 'boxes/b1/execs/old/output/stdout')).status, 416)
    const seen: unknown[] = []
    for await (const event of runner.client.execEvents('b1', 'old')) seen.push(event.type)
    assert.deepEqual(seen, ['start', 'gap', 'gap', 'exit'])
  })

  test('a client reports how far a call got: nothing sent, token refused, cancelled by the caller', async (t) => {
    const runner = await inProcess(t)
    const nobody = createRunnerClient({ url: 'http://127.0.0.1:9', token: 'x' })
    const fault = await nobody.createBox({}).then(
      () => undefined,
      (error: unknown) => error as Fault,
    )
    assert.deepEqual(
      [fault?.category, fault?.report.phase, fault?.report.sideEffects],
      ['runner_unreachable', 'connect', 'none'],
    )
    const wrong = createRunnerClient({ url: runner.url, token: 'wrong' })
    await assert.rejects(wrong.listBoxes(), { category: 'runner_auth_failed' })
    await runner.box({ id: 'b1' })
    await runner.client.startExec('b1', { execId: 'e1', command: ['sleep', '100'] })
    const abort = new AbortController()
    setImmediate(() => abort.abort(new Error('enough')))
    const seen = []
    for await (const event of runner.client.execEvents('b1', 'e1', { signal: abort.signal })) seen.push(event)
    const last = seen.at(-1)
    assert.ok(last?.type === 'fault' && last.fault.category === 'cancelled', JSON.stringify(last))
    await Promise.all([nobody.close(), wrong.close()])
  })

  test('an idle runner exits, but not while an exec runs', async (t) => {
    let [idle, readings, nowMs] = [false, 0, 0]
    const clock = { ...systemClock(), monotonicMs: () => ((readings += 1), nowMs) }
    const runner = await inProcess(t, { idleExitMs: 80, clock, onIdle: () => (idle = true) })
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', command: ['sleep', '600'] })
    const file = join(runner.stateDir, 'runner.json')
    assert.equal((JSON.parse(readFileSync(file, 'utf8')) as { url: string }).url, runner.url)
    nowMs += 1_000
    const before = readings
    await until(() => readings > before + 3, Boolean) // it has looked, and found the exec
    assert.equal(idle, false)
    await runner.client.killExec('b1', 'e1')
    await runner.client.waitExec('b1', 'e1')
    nowMs += 1_000
    await until(() => idle, Boolean)
    await runner.close()
  })
})
