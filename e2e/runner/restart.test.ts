/** A runner that dies or is stopped, over raw HTTP: execs continue, results are kept, and nothing is invented. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { assertProblem, type Block, BOXES, bytesOf, WireRunner } from './runner-process.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const flags = ['--allow-isolation', 'process']
const lines = (from: number, to: number): string =>
  Array.from({ length: to - from + 1 }, (_, i) => `line ${from + i}\n`).join('')

/** Reads until a block matches, and adds everything it read to `held`. */
async function readTo(
  blocks: AsyncIterableIterator<Block>,
  held: Block[],
  fits: (block: Block) => boolean,
): Promise<void> {
  for await (const block of { [Symbol.asyncIterator]: () => ({ next: () => blocks.next() }) }) {
    held.push(block)
    if (fits(block)) return
  }
}

test('kill -9 of the runner during an exec loses no output and no exit code', LIMIT, async () => {
  await using runner = await WireRunner.start({ flags })
  const before = runner.listening
  const box = await runner.box({ id: 'kept' })
  const stopped = await runner.box({ id: 'resting' })
  await runner.post(`${BOXES}/${stopped}/stop`, {})
  await runner.run(box, { execId: 'old', shell: 'echo old; echo older >&2; exit 3' })
  const old = await runner.events(`${BOXES}/kept/execs/old/events`)
  const oldRecord = (await runner.get(`${BOXES}/kept/execs/old`)).json
  await runner.put(`${BOXES}/kept/files/note`, 'written before')

  const request = { execId: 'live', shell: 'for i in $(seq 60); do echo "line $i"; sleep 0.03; done; exit 9' }
  const held: Block[] = []
  await using stream = await runner.stream('POST', `${BOXES}/kept/exec`, { json: request })
  await readTo(stream.blocks, held, ({ event }) => event === 'stdout')
  const fast = { execId: 'fast', shell: 'echo up; sleep 0.2; echo done; exit 8' }
  await using second = await runner.stream('POST', `${BOXES}/kept/exec`, { json: fast })
  await readTo(second.blocks, [], ({ event }) => event === 'stdout')
  await runner.end('SIGKILL')

  await runner.start()
  assert.equal(runner.listening.runnerId, before.runnerId)
  assert.notEqual(runner.listening.bootId, before.bootId)
  assert.equal((await runner.get(`${BOXES}/kept`)).json.state, 'running')
  assert.equal((await runner.get(`${BOXES}/resting`)).json.state, 'stopped')
  assert.deepEqual((await runner.get(`${BOXES}/kept/execs/old`)).json, oldRecord)
  assert.deepEqual(await runner.events(`${BOXES}/kept/execs/old/events`), old)
  assert.equal((await runner.get(`${BOXES}/kept/files/note`)).text, 'written before')

  assert.equal((await runner.post(`${BOXES}/kept/exec`, request)).status, 200, 'a known id attaches to its exec')
  assertProblem(await runner.post(`${BOXES}/kept/exec`, { ...request, merge: true }), 409, 'exec_conflict')
  held.push(...(await runner.events(`${BOXES}/kept/execs/live/events?after=${held.at(-1)?.id}`)))
  assert.equal(bytesOf(held, 'stdout').toString(), lines(1, 60))
  assert.deepEqual(
    held.map(({ data }) => data.seq),
    held.map((_, i) => i + 1),
  )
  assert.deepEqual(held, await runner.events(`${BOXES}/kept/execs/live/events`))
  assert.equal(held.at(-1)?.data.cause, 'exited')
  assert.equal(held.at(-1)?.data.code, 9)
  assert.equal((await runner.wait('kept', 'fast')).exit.code, 8)
  assert.equal(await runner.output('kept', 'fast'), 'up\ndone\n')
})

test('on SIGTERM the runner asks streams to reconnect, leaves execs running and exits with 0', LIMIT, async () => {
  await using runner = await WireRunner.start({ flags })
  const token = runner.token
  const box = await runner.box()
  await runner.post(`${BOXES}/${box}/exec`, {
    execId: 'e',
    shell: 'for i in $(seq 40); do echo "line $i"; sleep 0.03; done; exit 2',
  })
  const held: Block[] = []
  await using stream = await runner.stream('GET', `${BOXES}/${box}/execs/e/events`)
  await readTo(stream.blocks, held, ({ event }) => event === 'stdout')
  const waiting = runner.get(`${BOXES}/${box}/execs/e/wait`).catch((error: unknown) => error)
  const closed = once(runner.program.child, 'close')
  runner.program.child.kill('SIGTERM')
  held.push(...(await Array.fromAsync(stream.blocks)))
  const farewell = held.pop()
  assert.equal(farewell?.event, 'going-away')
  assert.equal(farewell?.id, null)
  assert.equal(farewell?.data.type, 'going-away')
  assert.equal(farewell?.data.seq, held.at(-1)?.data.seq)
  assert.deepEqual(await closed, [0, null])
  const waited = await waiting
  if (!(waited instanceof Error))
    assert.ok([202, 503].includes((waited as { status: number }).status), 'no made-up end')
  await runner.start()
  assert.equal(runner.token, token)
  held.push(...(await runner.events(`${BOXES}/${box}/execs/e/events`, { 'last-event-id': String(farewell?.data.seq) })))
  assert.equal(bytesOf(held, 'stdout').toString(), lines(1, 40))
  assert.equal(held.at(-1)?.data.code, 2)
})

test(
  'after a restart an earlier epoch still counts, a removed box stays removed, and its id is free',
  LIMIT,
  async () => {
    await using runner = await WireRunner.start({ flags })
    const box = await runner.box()
    const put = (epoch: string) =>
      runner.put(`${BOXES}/${box}/files/f`, epoch, { headers: { 'x-breakfall-epoch': epoch } })
    assert.ok((await put('7')).status < 300)
    await runner.box({ id: 'gone' })
    await runner.put(`${BOXES}/gone/files/f`, 'x')
    assert.equal((await runner.delete(`${BOXES}/gone`)).status, 204)
    await runner.end('SIGKILL')
    await runner.start()
    assertProblem(await put('6'), 409, 'lease_lost')
    assert.equal((await runner.get(`${BOXES}/${box}/files/f`)).text, '7')
    assert.ok((await put('7')).status < 300)
    assertProblem(await runner.get(`${BOXES}/gone`), 404, 'box_not_found')
    await runner.box({ id: 'gone' })
    assert.deepEqual((await runner.get(`${BOXES}/gone/files`)).json.files, [])
    assert.deepEqual((await runner.get(`${BOXES}/gone/execs`)).json.execs, [])
  },
)
