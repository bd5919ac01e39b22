/** Boxes over raw HTTP: their records, their states, and execs that race with stop and delete. */
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

test('exec on a stopped box is 409 box_stopped with its state, and nothing is reserved', LIMIT, async () => {
  const box = await runner.box()
  await runner.post(`${BOXES}/${box}/stop`, {})
  const problem = assertProblem(
    await runner.post(`${BOXES}/${box}/exec`, { execId: 'e', shell: 'true' }),
    409,
    'box_stopped',
  )
  assert.equal(problem.title, 'The box is stopped')
  assert.equal(problem.boxId, box)
  assert.equal(problem.boxState, 'stopped')
  assert.equal(problem.class, 'invalid')
  assert.equal(problem.boundary, 'box')
  assertProblem(await runner.get(`${BOXES}/${box}/execs/e`), 404, 'exec_not_found')
  await runner.post(`${BOXES}/${box}/start`, {})
  assert.equal((await runner.post(`${BOXES}/${box}/exec`, { execId: 'e', shell: 'true' })).status, 201)
})

test('a stopped box with autoStart starts for an exec, and files outlive a stop', LIMIT, async () => {
  const box = await runner.box({ autoStart: true })
  await runner.shell(box, 'echo kept > kept')
  assert.equal((await runner.post(`${BOXES}/${box}/stop`, {})).json.state, 'stopped')
  assert.equal(await runner.shell(box, 'cat kept'), 'kept\n')
  assert.equal((await runner.get(`${BOXES}/${box}`)).json.state, 'running')
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

test('exec on a stopping box is 409 box_invalid_state with the state', LIMIT, async () => {
  const box = await runner.box()
  const slow = { execId: 'slow', shell: 'trap "" TERM; echo up; while :; do sleep 1; done', killGraceMs: 1500 }
  await runner.post(`${BOXES}/${box}/exec`, slow)
  await using stream = await runner.stream('GET', `${BOXES}/${box}/execs/slow/events`)
  await nextOf(stream.blocks, 'stdout')
  const stopped = runner.post(`${BOXES}/${box}/stop`, {})
  const seen = new Set<string>()
  for (let over = false; !over;) {
    const answer = await runner.post(`${BOXES}/${box}/exec`, { shell: 'true' })
    if (answer.status === 201) continue // The stop has not started yet.
    over = answer.json.category === 'box_stopped'
    const problem = assertProblem(answer, 409, over ? 'box_stopped' : 'box_invalid_state')
    seen.add(problem.boxState)
    assert.equal(problem.boxState, over ? 'stopped' : 'stopping')
  }
  assert.equal((await stopped).status, 200)
  assert.ok(seen.has('stopped'))
})

test(
  'execs that race with stop, start and delete are 201, 404 or 409, and every started exec ends',
  LIMIT,
  async () => {
    for (let round = 0; round < 12; round++) {
      const box = await runner.box()
      const began: string[] = []
      const exec = async (i: number): Promise<void> => {
        const answer = await runner.post(`${BOXES}/${box}/exec`, { execId: `e${i}`, shell: 'echo x; sleep 0.02' })
        if (answer.status === 201) began.push(`e${i}`)
        else if (answer.status === 404) assertProblem(answer, 404, 'box_not_found')
        else assertProblem(answer, 409, answer.json.boxState === 'stopped' ? 'box_stopped' : 'box_invalid_state')
      }
      const verb = async (name: string): Promise<void> => {
        const answer =
          name === 'delete' ? await runner.delete(`${BOXES}/${box}`) : await runner.post(`${BOXES}/${box}/${name}`, {})
        assert.ok([200, 204, 404, 409].includes(answer.status), answer.text)
      }
      const plan = ['stop', 'start', 'stop', ...(round % 2 === 0 ? ['delete'] : [])]
      await Promise.all([
        ...Array.from({ length: 6 }, async (_, i) => {
          for (let turn = 0; turn < (round + i) % 3; turn++) await runner.get('/v1/health')
          await exec(i)
        }),
        (async () => {
          for (let turn = 0; turn < round % 4; turn++) await runner.get('/v1/health')
          for (const name of plan) await verb(name)
        })(),
      ])
      for (const id of began) {
        const over = await runner.get(`${BOXES}/${box}/execs/${id}/wait?timeoutMs=10000`)
        if (round % 2 === 0) assertProblem(over, 404, 'box_not_found')
        else {
          assert.equal(over.status, 200, over.text)
          assert.match(over.json.exit.cause, /^(exited|box_stopped)$/)
        }
      }
    }
  },
)

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

async function nextOf(blocks: AsyncIterableIterator<Json>, event: string): Promise<Json> {
  for (;;) {
    const { value, done } = await blocks.next()
    assert.ok(!done, `the stream ended before ${event}`)
    if (value.event === event) return value.data
  }
}
