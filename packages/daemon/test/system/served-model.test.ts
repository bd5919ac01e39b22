/** Turns at a model server that the daemon runs itself: real children that crash, restart and mislead. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { SessionEvent } from '@breakfall/wire'
import { rig, tempFolder } from '../support/setup.ts'

const PROGRAM = fileURLToPath(new URL('../programs/model-with-bad-boots.ts', import.meta.url))

async function served(t: TestContext, ...behaviours: readonly string[]) {
  const log = join(tempFolder(t), 'ports')
  const command = [process.execPath, PROGRAM, '{port}', log, ...behaviours]
  const { api } = await rig(t, () => ({}), {
    model: { baseUrl: '', name: 'local', serve: { command } },
    policy: { backoffMs: 50 },
  })
  const turn = async (): Promise<readonly SessionEvent[]> => {
    const { id } = await api.session()
    const events = await api.ended(id, await api.prompt(id, 'go'))
    const end = events.at(-1)
    assert.ok(end?.type === 'turn-end', JSON.stringify(end))
    assert.equal(end.text, 'whole at last')
    return events
  }
  return { turn, ports: (): readonly string[] => readFileSync(log, 'utf8').trim().split('\n') }
}

const retries = (events: readonly SessionEvent[]): readonly Extract<SessionEvent, { type: 'retry' }>[] =>
  events.filter((event) => event.type === 'retry')

test('a model server that crashes fails the attempt with its cause, restarts, and the turn continues', async (t) => {
  const { turn } = await served(t, 'out-of-memory')
  const [retry, ...more] = retries(await turn())
  assert.deepEqual(more, [])
  assert.equal(retry?.action, 'retry')
  const { fault } = retry
  assert.deepEqual([fault.category, fault.next, fault.sideEffects], ['process_failed', 'retry', 'none'])
  assert.match(fault.error, /^the model server \(node\) exited with code 1 .*GPU memory/)
  assert.equal(fault.diagnostics[0]?.rank, 'cause')
  assert.match(fault.diagnostics[0]?.message ?? '', /memory/i)
})

test('a crash with three turns in flight fails each of them once, and all of them finish after the restart', async (t) => {
  const { turn, ports } = await served(t, 'out-of-memory:3')
  const turns = await Promise.all([turn(), turn(), turn()])
  assert.deepEqual(
    turns.map((events) => retries(events).map(({ fault }) => [fault.category, fault.diagnostics.length > 0])),
    [[['process_failed', true]], [['process_failed', true]], [['process_failed', true]]],
  )
  assert.equal(ports().length, 2)
})

test('an earlier crash is not blamed for a connection that its healthy successor drops', async (t) => {
  const { turn, ports } = await served(t, 'out-of-memory', 'drops-one')
  const [crash, drop, ...more] = retries(await turn())
  assert.deepEqual(more, [])
  assert.equal(crash?.fault.category, 'process_failed')
  assert.equal(drop?.fault.category, 'model_stream_interrupted')
  assert.deepEqual(drop.fault.diagnostics, [])
  assert.doesNotMatch(drop.fault.error, /memory|crash/)
  assert.equal(ports().length, 2, 'the successor keeps running')
})

test('an exit with code 0 and an abort keep their code and signal in the fault of the turn', async (t) => {
  const { turn } = await served(t, 'exit-0', 'abort')
  const faults = retries(await turn()).map(({ fault }) => fault)
  assert.deepEqual(
    faults.map(({ category }) => category),
    ['process_failed', 'process_failed'],
  )
  assert.match(faults[0]?.error ?? '', /exited with code 0/)
  assert.match(faults[1]?.error ?? '', /SIGABRT/)
})

test('a model server that restarts on another port is found there', async (t) => {
  const { turn, ports } = await served(t, 'exit-0', 'exit-0', 'exit-0')
  assert.equal(retries(await turn()).length, 3)
  assert.ok(new Set(ports()).size > 1, ports().join(' '))
})

test('a model server that closes its socket and stays alive is ended and replaced, with what it printed', async (t) => {
  const { turn, ports } = await served(t, 'outlives-its-socket')
  const events = retries(await turn())
  const fault = events.at(-1)?.fault
  assert.equal(fault?.category, 'process_hung')
  assert.ok(
    fault.diagnostics.some(({ id }) => id.includes('illegal')),
    JSON.stringify(fault.diagnostics),
  )
  assert.ok(events.length <= 2, 'no series of attempts at a dead socket')
  assert.equal(ports().length, 2)
})
