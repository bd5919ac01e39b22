/** Boxes over raw HTTP: their records, their states, and execs that end with them. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertProblem, BOXES, ISO, type Json, WireRunner } from './runner-process.ts'
import { LIMIT } from '../../test/kit/wait.ts'

let runner: WireRunner

before(async () => {
  runner = await WireRunner.start({ flags: ['--allow-isolation', 'process'] })
})
after(() => runner[Symbol.asyncDispose]())

test('a new box is running and its record says how it is isolated and limited', LIMIT, async () => {
  const { status, json: box } = await runner.post(BOXES, { id: 'b1' })
  assert.equal(status, 201)
  assert.equal(box.id, 'b1')
  assert.equal(box.state, 'running')
  assert.match(box.createdAt, ISO)
  assert.equal(box.workspace.kind, 'private')
  if (box.isolation.level === 'bwrap') assert.equal(box.workspace.path, '/workspace')
  assert.equal(box.isolation.level, runner.level)
  for (const name of ['userns', 'pidns', 'netns', 'memoryLimit', 'pidsLimit'])
    assert.equal(typeof box.isolation[name], 'boolean', name)
  assert.equal(box.limits.memoryMb, box.isolation.memoryLimit ? 1024 : null)
  assert.equal(box.limits.pids, box.isolation.pidsLimit ? 256 : null)
  assert.equal(box.limits.cpus, null)
  assert.equal(box.limits.execsMax, 32)
  if (box.isolation.netns) assert.equal(box.network, 'none')
  assert.equal(box.autoStart, false)
  const { at, ...transition } = box.lastTransition
  assert.match(at, ISO)
  assert.deepEqual(transition, { from: 'creating', to: 'running' })
  assert.deepEqual((await runner.get(`${BOXES}/b1`)).json, box)
  assert.deepEqual(
    (await runner.get(BOXES)).json.boxes.find(({ id }: Json) => id === 'b1'),
    box,
  )
})

test('a box without an id in its request gets a new one', LIMIT, async () => {
  const ids = await Promise.all(Array.from({ length: 8 }, () => runner.box()))
  assert.equal(new Set(ids).size, 8)
})

test(
  'of twenty concurrent requests for the same id one creates the box, and the others get a conflict',
  LIMIT,
  async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => runner.post(BOXES, { id: 'wanted' })))
    assert.equal(answers.filter(({ status }) => status === 201).length, 1)
    for (const answer of answers.filter(({ status }) => status !== 201))
      assert.equal(assertProblem(answer, 409, 'box_already_exists').boxId, 'wanted')
  },
)

test('every call on an unknown box is 404 box_not_found', LIMIT, async () => {
  for (const [method, path, json] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/start', {}],
    ['POST', '/stop', {}],
    ['POST', '/exec', { shell: 'true' }],
    ['GET', '/execs'],
    ['GET', '/files'],
    ['GET', '/files/x'],
    ['PUT', '/files/x'],
    ['DELETE', '/files/x'],
    ['GET', '/execs/e'],
    ['GET', '/execs/e/wait'],
    ['GET', '/execs/e/events'],
    ['POST', '/execs/e/kill', {}],
  ] as const) {
    const problem = assertProblem(await runner.ask(method, `${BOXES}/none${path}`, { json }), 404, 'box_not_found')
    assert.equal(problem.boxId, 'none', `${method} ${path}`)
  }
})

test('stop and start are idempotent, and each change shows in the record', LIMIT, async () => {
  const box = await runner.box()
  for (const [verb, state] of [
    ['stop', 'stopped'],
    ['stop', 'stopped'],
    ['start', 'running'],
    ['start', 'running'],
  ] as const) {
    const answer = await runner.post(`${BOXES}/${box}/${verb}`, {})
    assert.equal(answer.status, 200, answer.text)
    assert.equal(answer.json.state, state)
    assert.equal(answer.json.lastTransition.to, state)
  }
  assert.equal(await runner.shell(box, 'echo again'), 'again\n')
})

test('stop works without a body', LIMIT, async () => {
  const box = await runner.box()
  assert.equal((await runner.ask('POST', `${BOXES}/${box}/stop`)).status, 200)
  assert.equal((await runner.get(`${BOXES}/${box}`)).json.state, 'stopped')
})

test('stop ends running execs with cause box_stopped, answers their waiters and keeps the records', LIMIT, async () => {
  const box = await runner.box()
  await runner.post(`${BOXES}/${box}/exec`, { execId: 'e', shell: 'echo up; sleep 600' })
  await using stream = await runner.stream('GET', `${BOXES}/${box}/execs/e/events`)
  await nextOf(stream.blocks, 'stdout')
  const waiting = runner.get(`${BOXES}/${box}/execs/e/wait`)
  assert.equal((await runner.post(`${BOXES}/${box}/stop`, {})).status, 200)
  const { status, json: record } = await waiting
  assert.equal(status, 200)
  assert.equal(record.state, 'exited')
  assert.equal(record.exit.cause, 'box_stopped')
  assert.equal((await Array.fromAsync(stream.blocks)).at(-1)?.data.cause, 'box_stopped')
  assert.deepEqual((await runner.get(`${BOXES}/${box}/execs/e`)).json, record)
  assert.equal(await runner.output(box, 'e'), 'up\n')
})

test('delete ends running execs, answers their waiters and streams, and is 204, then 404', LIMIT, async () => {
  const box = await runner.box()
  await runner.post(`${BOXES}/${box}/exec`, { execId: 'e', shell: 'echo up; sleep 600' })
  await using stream = await runner.stream('GET', `${BOXES}/${box}/execs/e/events`)
  await nextOf(stream.blocks, 'stdout')
  const waiting = runner.get(`${BOXES}/${box}/execs/e/wait`)
  const gone = await runner.delete(`${BOXES}/${box}`)
  assert.equal(gone.status, 204)
  assert.equal(gone.bytes.length, 0)
  assert.equal((await waiting).json.exit.cause, 'box_stopped')
  assert.equal((await Array.fromAsync(stream.blocks)).at(-1)?.data.cause, 'box_stopped')
  assertProblem(await runner.delete(`${BOXES}/${box}`), 404, 'box_not_found')
  assertProblem(await runner.post(`${BOXES}/${box}/exec`, { shell: 'true' }), 404, 'box_not_found')
  assertProblem(await runner.get(`${BOXES}/${box}/execs/e`), 404, 'box_not_found')
})

test('an exec beyond execsMax is 429 quota_exceeded and reserves nothing, and works again later', LIMIT, async () => {
  const box = await runner.box({ limits: { execsMax: 2 } })
  for (const id of ['a', 'b'])
    assert.equal((await runner.post(`${BOXES}/${box}/exec`, { execId: id, shell: 'cat', stdin: 'pipe' })).status, 201)
  const third = { execId: 'c', shell: 'echo c' }
  assertProblem(await runner.post(`${BOXES}/${box}/exec`, third), 429, 'quota_exceeded')
  assertProblem(await runner.get(`${BOXES}/${box}/execs/c`), 404, 'exec_not_found')
  assert.equal((await runner.post(`${BOXES}/${box}/exec`, { execId: 'a', shell: 'cat', stdin: 'pipe' })).status, 200)
  await runner.post(`${BOXES}/${box}/execs/a/kill`, {})
  await runner.wait(box, 'a')
  assert.equal((await runner.post(`${BOXES}/${box}/exec`, third)).status, 201)
})

test('an unknown field in stop, start or kill is refused by name, and nothing changes', LIMIT, async () => {
  const box = await runner.box()
  await runner.post(`${BOXES}/${box}/exec`, { execId: 'e', shell: 'cat', stdin: 'pipe' })
  for (const path of ['stop', 'start', 'execs/e/kill']) {
    const problem = assertProblem(await runner.post(`${BOXES}/${box}/${path}`, { force: 1 }), 400, 'invalid_request')
    assert.equal(problem.errors[0].field, 'force')
  }
  assert.equal((await runner.get(`${BOXES}/${box}`)).json.state, 'running')
  assert.equal((await runner.get(`${BOXES}/${box}/execs/e`)).json.exit, null)
})

test('a made-up cursor is 400 and named, and a real cursor continues the list', LIMIT, async () => {
  await runner.box()
  for (const path of [BOXES, `${BOXES}/b1/execs`, `${BOXES}/b1/files`]) {
    const problem = assertProblem(await runner.get(`${path}?cursor=zzz`), 400, 'invalid_request')
    assert.equal(problem.errors[0].field, 'cursor')
  }
  const first = (await runner.get(`${BOXES}?limit=1`)).json
  const second = (await runner.get(`${BOXES}?limit=1&cursor=${encodeURIComponent(first.next)}`)).json
  assert.equal(second.boxes.length, 1)
  assert.notEqual(second.boxes[0].id, first.boxes[0].id)
})

async function nextOf(blocks: AsyncIterableIterator<Json>, event: string): Promise<Json> {
  for (;;) {
    const { value, done } = await blocks.next()
    assert.ok(!done, `the stream ended before ${event}`)
    if (value.event === event) return value.data
  }
}
