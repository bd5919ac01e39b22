/** The output of execs over raw HTTP: what they print, and how it can be read again from any point. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sharedRunner } from './shared-runner.ts'
import { assertProblem, assertWellFormed, bytesOf, ISO } from './runner-process.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const { runner, box, place } = await sharedRunner()

test('events are a start, every byte in order, and one final exit, with id and event lines', LIMIT, async () => {
  const script = 'for i in $(seq 200); do echo "out $i"; echo "err $i" >&2; done'
  await using stream = await runner.stream('POST', `${place}/exec`, { json: { execId: 'order', shell: script } })
  assert.equal(stream.status, 201)
  const blocks = await Array.fromAsync(stream.blocks)
  assertWellFormed(blocks)
  const { at, pid, ...start } = blocks[0]?.data ?? {}
  assert.match(at, ISO)
  assert.ok(Number.isInteger(pid))
  assert.deepEqual(start, { seq: 1, type: 'start', execId: 'order' })
  const lines = (word: string): string => Array.from({ length: 200 }, (_, i) => `${word} ${i + 1}\n`).join('')
  assert.equal(bytesOf(blocks, 'stdout').toString(), lines('out'))
  assert.equal(bytesOf(blocks, 'stderr').toString(), lines('err'))
  assert.equal(await runner.output(box, 'order'), lines('out'))
  assert.equal(await runner.output(box, 'order', 'stderr'), lines('err'))
})

test('a reader can resume after any event, by after or Last-Event-ID, and gets the same chunks', LIMIT, async () => {
  const script = 'for i in 1 2 3 4 5 6 7 8; do printf "é$i\\n"; printf "\\377$i" >&2; sleep 0.02; done; exit 4'
  await runner.post(`${place}/exec`, { execId: 'resume', shell: script })
  const live = await runner.events(`${place}/execs/resume/events`)
  assertWellFormed(live)
  assert.ok(live.length >= 6)
  for (let seq = 0; seq <= live.length; seq++) {
    assert.deepEqual(await runner.events(`${place}/execs/resume/events?after=${seq}`), live.slice(seq))
    assert.deepEqual(
      await runner.events(`${place}/execs/resume/events`, { 'last-event-id': String(seq) }),
      live.slice(seq),
    )
    // A reconnecting EventSource requests its first address again and sends its position in the header.
    assert.deepEqual(
      await runner.events(`${place}/execs/resume/events?after=1`, { 'last-event-id': String(seq) }),
      live.slice(seq),
    )
  }
  for (const after of ['x', '-1', '1.5', '', String(live.length + 1), '9'.repeat(30), '1&after=2']) {
    assertProblem(await runner.get(`${place}/execs/resume/events?after=${after}`), 400, 'invalid_request')
    const headers = { 'last-event-id': after }
    assertProblem(await runner.get(`${place}/execs/resume/events?after=0`, { headers }), 400, 'invalid_request')
  }
})

test('a single invalid byte produces exactly the event in the contract', LIMIT, async () => {
  await runner.run(box, { execId: 'bad-byte', shell: String.raw`printf 'hi\n'; sleep 0.1; printf '\377' >&2` })
  const [, out, bad] = (await runner.events(`${place}/execs/bad-byte/events`)).map(({ data }) => data)
  assert.deepEqual(out, { seq: 2, type: 'stdout', offset: 0, data: 'hi\n' })
  assert.deepEqual(bad, { seq: 3, type: 'stderr', offset: 0, dataBase64: '/w==' })
})

test(
  'waiters before, during and after the end all get the same record, and a wait that times out is 202',
  LIMIT,
  async () => {
    await runner.post(`${place}/exec`, { execId: 'waited', shell: 'read line; echo "$line"', stdin: 'pipe' })
    const early = Array.from({ length: 20 }, () => runner.get(`${place}/execs/waited/wait`))
    const soFar = await runner.get(`${place}/execs/waited/wait?timeoutMs=50`)
    assert.equal(soFar.status, 202)
    assert.equal(soFar.json.execId, 'waited')
    assert.equal(soFar.json.exit, null)
    assert.equal(soFar.json.endedAt, null)
    assert.equal((await runner.get(`${place}/execs/waited/wait?timeoutMs=0`)).status, 202)
    for (const wrong of ['x', '-1', '1.5', ''])
      assertProblem(await runner.get(`${place}/execs/waited/wait?timeoutMs=${wrong}`), 400, 'invalid_request')
    await runner.ask('POST', `${place}/execs/waited/stdin`, { body: 'go\n' })
    const records = await Promise.all(early)
    const late = await Promise.all(
      Array.from({ length: 20 }, () => runner.get(`${place}/execs/waited/wait?timeoutMs=1`)),
    )
    for (const answer of [...records, ...late]) {
      assert.equal(answer.status, 200)
      assert.deepEqual(answer.json, records[0]?.json)
    }
    assert.equal(records[0]?.json.exit.code, 0)
  },
)

test('output is served in ranges, and a range beyond its end is 416 with the length', LIMIT, async () => {
  await runner.run(box, { execId: 'range', command: ['printf', '0123456789'] })
  const path = `${place}/execs/range/output/stdout`
  const whole = await runner.get(path)
  assert.equal(whole.status, 200)
  assert.equal(whole.headers['accept-ranges'], 'bytes')
  assert.equal(whole.headers['content-length'], '10')
  for (const [range, text, described] of [
    ['bytes=0-3', '0123', 'bytes 0-3/10'],
    ['bytes=4-', '456789', 'bytes 4-9/10'],
    ['bytes=-2', '89', 'bytes 8-9/10'],
    ['bytes=8-100', '89', 'bytes 8-9/10'],
    ['bytes=9-9', '9', 'bytes 9-9/10'],
    ['bytes=-100', '0123456789', 'bytes 0-9/10'],
  ] as const) {
    const part = await runner.get(path, { headers: { range } })
    assert.equal(part.status, 206, range)
    assert.equal(part.text, text)
    assert.equal(part.headers['content-range'], described)
  }
  for (const range of ['bytes=10-', 'bytes=50-60', 'bytes=-0']) {
    const answer = await runner.get(path, { headers: { range } })
    assertProblem(answer, 416, 'range_not_satisfiable')
    assert.equal(answer.headers['content-range'], 'bytes */10')
  }
  assert.equal((await runner.get(`${place}/execs/range/output/stderr`)).text, '')
  const other = await runner.get(`${place}/execs/range/output/stdin`)
  assert.ok(other.status === 404 || other.status === 400, other.text)
})
