/** The fence: what an owner that was replaced cannot do any more, with and without a box, and after the runner was killed. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { type Answer, asProgram, inProcess, LEVEL_FLAGS, type TestRunner } from '../kit.ts'

const PROCESS = { allowIsolation: ['process'], isolation: 'process' } as const

type Call = (method: string, path: string, body?: unknown) => Promise<Answer>
const owner =
  (runner: TestRunner, epoch: number): Call =>
  (method, path, body) =>
    runner.call(method, path, body, { 'x-breakfall-epoch': String(epoch) })

const refused = ({ status, json }: Answer): unknown[] => [status, json.category, json['epochSeen']]

test('an owner without a box is remembered: the old owner can create, remove and run nothing', async (t) => {
  const runner = await inProcess(t, PROCESS)
  const [old, current] = [owner(runner, 5), owner(runner, 6)]
  const owned = await current('PUT', 'boxes/b1/owner')
  assert.deepEqual([owned.status, owned.json], [200, { epoch: 6 }])
  assert.equal((await current('PUT', 'boxes/b1/owner')).status, 200, 'repeating it changes nothing')
  assert.equal((await runner.call('PUT', 'boxes/b1/owner')).status, 400, 'an owner has an epoch')
  for (const [method, path, body] of [
    ['POST', 'boxes', { id: 'b1' }],
    ['DELETE', 'boxes/b1', undefined],
    ['PUT', 'boxes/b1/owner', undefined],
    ['POST', 'boxes/b1/exec', { execId: 'e1', shell: 'true' }],
    ['POST', 'boxes/b1/execs/e1/kill?burn=1', undefined],
    ['POST', 'boxes/b1/stop', undefined],
    ['PUT', 'boxes/b1/files/a.txt', 'old'],
  ] as const)
    assert.deepEqual(refused(await old(method, path, body)), [409, 'lease_lost', 6], `${method} ${path}`)
  assert.equal((await current('POST', 'boxes', { id: 'b1' })).status, 201)
  assert.deepEqual(refused(await old('POST', 'boxes', { id: 'b1' })), [409, 'lease_lost', 6], 'also while there is one')
  assert.equal((await owner(runner, 7)('DELETE', 'boxes/b1')).status, 204)
  assert.deepEqual(
    refused(await current('POST', 'boxes', { id: 'b1' })),
    [409, 'lease_lost', 7],
    'and after its removal',
  )
  assert.equal((await owner(runner, 9)('DELETE', 'boxes/b2')).status, 404, 'there never was one')
  assert.deepEqual(refused(await current('POST', 'boxes', { id: 'b2' })), [409, 'lease_lost', 9])
})

test('an epoch of fifteen digits is accepted, and comes back unchanged', async (t) => {
  const runner = await inProcess(t, PROCESS)
  assert.deepEqual((await owner(runner, 999_999_999_999_999)('PUT', 'boxes/b1/owner')).json, {
    epoch: 999_999_999_999_999,
  })
})

test('a burned id never starts, with and without a box, and looks like an exec that was killed before it started', async (t) => {
  const runner = await inProcess(t, PROCESS)
  const current = owner(runner, 3)
  const burned = await current('POST', 'boxes/b1/execs/e1/kill?burn=1')
  const exit = burned.json['exit'] as Record<string, unknown>
  assert.deepEqual([burned.status, exit['cause'], exit['started'], exit['code']], [200, 'killed', false, null])
  const { id } = await runner.box({ id: 'b1' })
  const late = await current('POST', `boxes/${id}/exec`, { execId: 'e1', shell: 'echo ran > ran.txt' })
  assert.deepEqual([late.status, late.json['state']], [200, 'exited'])
  assert.deepEqual(late.json['exit'], exit)
  const events = await runner.events(id, 'e1')
  assert.deepEqual(
    events.map((event) => event.type),
    ['exit'],
  )
  assert.equal((await runner.call('GET', `boxes/${id}/files/ran.txt`)).status, 404)
  const again = await current('POST', `boxes/${id}/execs/e2/kill?burn=1`)
  assert.equal(again.status, 200)
  const { exec } = await runner.run(id, { execId: 'e2', shell: 'echo ran > ran.txt' })
  assert.deepEqual([exec.exit?.cause, exec.exit?.started], ['killed', false])
  assert.equal((await runner.call('GET', `boxes/${id}/files/ran.txt`)).status, 404)
  assert.equal((await current('POST', `boxes/${id}/execs/e3/kill`)).json.category, 'exec_not_found', 'only if asked to')
})

test('a kill right after a start never misses it: not found means that it did not run, and burned that it never will', async (t) => {
  const runner = await inProcess(t, PROCESS)
  const { id } = await runner.box()
  const outcomes = new Set<string>()
  for (let i = 0; i < 40; i += 1) {
    const execId = `e${i}`
    const starting = runner.call('POST', `boxes/${id}/exec`, { execId, shell: `echo ran > ${execId}.txt; sleep 20` })
    const killing = runner.call('POST', `boxes/${id}/execs/${execId}/kill?burn=1`)
    const [started, killed] = await Promise.all([starting, killing])
    assert.ok(started.status === 200 || started.status === 201)
    const exit = killed.json['exit'] as { started: boolean | null }
    const file = await runner.call('GET', `boxes/${id}/files/${execId}.txt`)
    if (exit.started === false)
      assert.equal(file.status, 404, `${execId} ran, but its record says that it did not start`)
    outcomes.add(String(exit.started))
  }
  assert.ok(outcomes.size > 0)
})

test('a slow upload of an owner that was replaced meanwhile is refused at its end', async (t) => {
  const runner = await inProcess(t, PROCESS)
  const { id } = await runner.box()
  const [old, current] = [owner(runner, 5), owner(runner, 6)]
  assert.equal((await old('PUT', `boxes/${id}/files/a.txt`, 'first')).status, 201)
  const upload = request(`${runner.url}/v1/default/boxes/${id}/files/a.txt`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${runner.token}`, 'x-breakfall-epoch': '5', 'transfer-encoding': 'chunked' },
  })
  const answered = new Promise<number>((resolve) =>
    upload.on('response', (answer) => resolve(answer.resume().statusCode ?? 0)),
  )
  await new Promise((resolve) => upload.write('old ', resolve))
  await current('GET', `boxes/${id}`) // the server has read the head of the upload by now
  assert.equal((await current('PUT', `boxes/${id}/files/a.txt`, 'new')).status, 200)
  upload.end('owner')
  assert.equal(await answered, 409)
  assert.equal((await runner.call('GET', `boxes/${id}/files/a.txt`)).text, 'new')
})

test('a runner of several daemons refuses changes without an epoch, and answers reads', async (t) => {
  const runner = await inProcess(t, { ...PROCESS, needsEpoch: true })
  assert.equal((await owner(runner, 1)('POST', 'boxes', { id: 'b1' })).status, 201)
  for (const [method, path, body] of [
    ['POST', 'boxes', {}],
    ['POST', 'boxes/b1/exec', { shell: 'true' }],
    ['PUT', 'boxes/b1/files/a.txt', 'a'],
    ['POST', 'boxes/b1/execs/e1/kill?burn=1', undefined],
    ['DELETE', 'boxes/b1', undefined],
  ] as const)
    assert.equal((await runner.call(method, path, body)).status, 400, `${method} ${path}`)
  assert.equal((await runner.call('GET', 'boxes/b1')).status, 200)
  assert.equal((await owner(runner, 1)('DELETE', 'boxes/b1')).status, 204)
})

test('fences and burned ids survive a runner that is killed right after its answer', async (t) => {
  const stateDir = join(tempFolder(t), 'state')
  const first = await asProgram(t, stateDir, LEVEL_FLAGS.process)
  assert.equal((await owner(first, 4)('POST', 'boxes', { id: 'with' })).status, 201)
  assert.equal((await owner(first, 6)('PUT', 'boxes/with/owner')).status, 200)
  assert.equal((await owner(first, 6)('PUT', 'boxes/without/owner')).status, 200)
  assert.equal((await owner(first, 6)('POST', 'boxes/with/execs/e1/kill?burn=1')).status, 200)
  assert.equal((await owner(first, 6)('POST', 'boxes/without/execs/e1/kill?burn=1')).status, 200)
  await first.kill('SIGKILL')

  const second = await asProgram(t, stateDir, LEVEL_FLAGS.process)
  for (const path of ['boxes/with/execs/e1/kill?burn=1', 'boxes/without/execs/e1/kill?burn=1'])
    assert.deepEqual(refused(await owner(second, 5)('POST', path)), [409, 'lease_lost', 6])
  assert.equal((await owner(second, 6)('POST', 'boxes', { id: 'without' })).status, 201)
  for (const id of ['with', 'without']) {
    const { status, json } = await owner(second, 6)('POST', `boxes/${id}/exec`, {
      execId: 'e1',
      shell: 'echo ran > ran.txt',
    })
    const exit = json['exit'] as Record<string, unknown>
    assert.deepEqual([status, exit['cause'], exit['started']], [200, 'killed', false])
    assert.equal((await second.call('GET', `boxes/${id}/files/ran.txt`)).status, 404)
  }
})
