/** Turns at a model server that the daemon runs itself: real children that crash, restart and mislead. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import { eventually } from '../../../../test/kit/wait.ts'
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { SessionEvent } from '@breakfall/wire'
import type { ModelConfig } from '@breakfall/engine'
import { rig } from '../support/setup.ts'
import { commandFor, QUICK_SERVER } from '../support/served.ts'

async function served(t: TestContext, ...behaviours: readonly string[]) {
  const log = join(tempFolder(t), 'boots')
  const model = (...list: readonly string[]): ModelConfig => ({
    baseUrl: '',
    name: 'local',
    serve: { command: commandFor(log, ...list) },
  })
  let current = model(...behaviours)
  const { api } = await rig(t, () => ({}), {
    model: current,
    reload: () => ({ model: current, runner: {} }),
    policy: { backoffMs: 50 },
    modelServer: QUICK_SERVER,
  })
  const turn = async (): Promise<readonly SessionEvent[]> => {
    const { id } = await api.session()
    const events = await api.ended(id, await api.prompt(id, 'go'))
    const end = events.at(-1)
    assert.ok(end?.type === 'turn-end', JSON.stringify(end))
    assert.equal(end.text, 'whole at last')
    return events
  }
  const boots = (): readonly { readonly port: string; readonly pid: number }[] =>
    (existsSync(log) ? readFileSync(log, 'utf8') : '')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(' '))
      .map(([port = '', pid]) => ({ port, pid: Number(pid) }))
  const configure = (...list: readonly string[]): void => {
    current = model(...list)
  }
  return { turn, boots, api, configure }
}

const retries = (events: readonly SessionEvent[]): readonly Extract<SessionEvent, { type: 'retry' }>[] =>
  events.filter((event) => event.type === 'retry')

test('a model server that crashes fails the attempt with its cause, restarts, and the turn continues', async (t) => {
  const { turn, boots } = await served(t, 'out-of-memory')
  const [retry, ...more] = retries(await turn())
  assert.deepEqual(more, [])
  assert.equal(retry?.action, 'retry')
  const { fault } = retry
  assert.deepEqual([fault.category, fault.next, fault.sideEffects], ['process_failed', 'retry', 'none'])
  assert.match(fault.error, /^the model server \(node\) exited with code 1 .*GPU memory/)
  assert.equal(fault.diagnostics[0]?.rank, 'cause')
  assert.match(fault.diagnostics[0]?.message ?? '', /memory/i)
  const exit = { code: 1, signal: null }
  assert.deepEqual(fault.serve, { boot: 1, pid: boots()[0]?.pid, state: 'restarting', exit })
})

test('a crash with three turns in flight fails each of them once, and all of them finish after the restart', async (t) => {
  const { turn, boots } = await served(t, 'out-of-memory:3')
  const turns = await Promise.all([turn(), turn(), turn()])
  assert.deepEqual(
    turns.map((events) => retries(events).map(({ fault }) => [fault.category, fault.diagnostics.length > 0])),
    [[['process_failed', true]], [['process_failed', true]], [['process_failed', true]]],
  )
  assert.equal(boots().length, 2)
})

test('an earlier crash is not blamed for a connection that its healthy successor drops', async (t) => {
  const { turn, boots } = await served(t, 'out-of-memory', 'drops-one')
  const [crash, drop, ...more] = retries(await turn())
  assert.deepEqual(more, [])
  assert.equal(crash?.fault.category, 'process_failed')
  assert.equal(drop?.fault.category, 'model_stream_interrupted')
  assert.deepEqual(drop.fault.diagnostics, [])
  assert.doesNotMatch(drop.fault.error, /memory|crash/)
  assert.deepEqual(drop.fault.serve, { boot: 2, pid: boots()[1]?.pid, state: 'busy', exit: null })
  assert.equal(boots().length, 2, 'the successor keeps running')
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
  assert.deepEqual(
    faults.map(({ serve }) => serve?.exit),
    [
      { code: 0, signal: null },
      { code: null, signal: 'SIGABRT' },
    ],
  )
})

test('a model server that restarts on another port is found there', async (t) => {
  const { turn, boots } = await served(t, 'exit-0', 'exit-0', 'exit-0')
  assert.equal(retries(await turn()).length, 3)
  const ports = boots().map(({ port }) => port)
  assert.ok(new Set(ports).size > 1, ports.join(' '))
})

test('a model server that closes its socket and stays alive is ended and replaced, with what it printed', async (t) => {
  const { turn, boots } = await served(t, 'outlives-its-socket')
  const events = retries(await turn())
  const fault = events.at(-1)?.fault
  assert.equal(fault?.category, 'process_hung')
  assert.ok(
    fault.diagnostics.some(({ id }) => id.includes('illegal')),
    JSON.stringify(fault.diagnostics),
  )
  assert.ok(events.length <= 2, 'no series of attempts at a dead socket')
  assert.equal(boots().length, 2)
})

for (const how of ['blocks', 'stops']) {
  test(`a model server that hangs in the middle of an answer is ended and restarted, and the turn continues (${how})`, async (t) => {
    const { turn, boots } = await served(t, how)
    const [retry, ...more] = retries(await turn())
    assert.deepEqual(more, [])
    assert.equal(retry?.action, 'retry')
    assert.equal(retry.fault.category, 'process_hung')
    assert.deepEqual(retry.fault.serve, { boot: 1, pid: boots()[0]?.pid, state: 'hung', exit: null })
    assert.equal(boots().length, 2)
  })
}

test('while the model loads, the turn says so, with the last line that the server printed', async (t) => {
  const { turn, boots } = await served(t, 'loads:3000')
  const events = await turn()
  const said = events.filter((event) => event.type === 'model-server')
  assert.ok(said.length > 0)
  for (const event of said) {
    assert.equal(event.state, 'loading')
    assert.ok(Date.parse(event.since) <= Date.parse(event.at))
  }
  assert.match(said.at(-1)?.line ?? '', /^load_tensors: \d+ of 10$/)
  const at = said.map((event) => Date.parse(event.at))
  for (const [n, time] of at.entries()) assert.ok(n === 0 || time - (at[n - 1] ?? 0) >= 900, 'at most one a second')
  assert.deepEqual(retries(events), [])
  assert.equal(boots().length, 1)
})

test('a SIGTERM from outside while the model loads is noticed at once, and the next boot answers', async (t) => {
  const { turn, boots, api } = await served(t, 'loads:3600000')
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'model-server' && event.line !== undefined)
  process.kill(boots()[0]?.pid ?? 0, 'SIGTERM')
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.equal(boots().length, 2)
  await turn()
})

test('a changed command replaces a healthy server at the next turn, once the old one is gone', async (t) => {
  const { turn, boots, configure } = await served(t, 'answers')
  await turn()
  configure('answers', 'answers-alone')
  const turns = await Promise.all([turn(), turn()])
  assert.deepEqual(turns.flatMap(retries), [])
  assert.equal(boots().length, 2)
})

test('a changed command replaces a server that is still loading, also for the turn that waits for it', async (t) => {
  const { turn, boots, configure } = await served(t, 'loads:600000')
  const waiting = turn()
  await eventually('the first boot', () => boots().length === 1)
  configure('loads:600000', 'answers')
  await Promise.all([turn(), waiting])
  assert.equal(boots().length, 2)
})

test('a changed command interrupts no answer', async (t) => {
  const { turn, boots, configure, api } = await served(t, 'drops-one:2')
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, ({ type }) => type === 'text-delta')
  configure('drops-one:2', 'answers')
  const others = await turn() // its request is the second: now both answers break off
  const faults = [...others, ...(await api.ended(id, turnId))].filter((event) => event.type === 'retry')
  assert.deepEqual(new Set(faults.map(({ fault }) => fault.category)), new Set(['model_stream_interrupted']))
  await turn()
  assert.equal(boots().length, 2)
})
