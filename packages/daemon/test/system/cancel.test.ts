import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closedPort } from '../../../../test/kit/tcp-server.ts'
import { isTerminal, type SessionEvent, type Turn } from '@breakfall/wire'
import { type Api, assertNoGap, types } from '../support/api.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, type Script } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'
import { lastOf } from '../../../engine/test/support/events.ts'

const slowBash = inOrder(
  { calls: [{ id: 'c1', tool: 'bash', arguments: { command: 'echo started; sleep 30; echo never' } }] },
  { text: 'not asked for' },
)

/** Cancels twice when the given event has come, and returns what happened. */
async function cancelled(
  api: Api,
  when: (event: SessionEvent) => boolean,
  create: object = {},
): Promise<{ events: SessionEvent[]; turnId: string; sessionId: string }> {
  const { id: sessionId } = await api.session(create)
  const turnId = await api.prompt(sessionId, 'go')
  await api.events(sessionId, when)
  const first = await api.call<Turn>('POST', `/v1/turns/${turnId}/cancel`, { reason: 'changed my mind' })
  const second = await api.call<Turn>('POST', `/v1/turns/${turnId}/cancel`, { reason: 'really' })
  assert.equal(first.status, 202, JSON.stringify(first.json))
  assert.ok(second.status === 202 || second.status === 200)
  const events = await api.ended(sessionId, turnId)
  assertNoGap(events)
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error')
  assert.deepEqual(
    [end.category, end.class, end.actor, end.reason],
    ['cancelled', 'cancelled', 'user', 'changed my mind'],
  )
  assert.equal(events.filter((event) => event.type === 'turn-error').length, 1)
  const third = await api.call<Turn>('POST', `/v1/turns/${turnId}/cancel`)
  assert.deepEqual([third.status, third.json.state, third.json.fault?.reason], [200, 'cancelled', 'changed my mind'])
  return { events, turnId, sessionId }
}

test('a cancel during the stream stops the model request and keeps the text so far', async (t) => {
  const { api } = await rig(t, () => ({ text: 'word '.repeat(400), pauseMs: 20, pieceChars: 5 }))
  const { events } = await cancelled(api, (event) => event.type === 'text-delta')
  assert.ok(!types(events).includes('part-discarded'))
})

test('a cancel during a tool ends its process, and the call has its result before the end', async (t) => {
  const { api } = await rig(t, slowBash)
  const { events, sessionId } = await cancelled(api, (event) => event.type === 'tool-output')
  const [result] = events.filter((event) => event.type === 'tool-result')
  assert.equal(result?.outcome, 'cancelled')
  assert.equal(result?.exit?.cause, 'killed')
  assert.match(result?.text ?? '', /started/)
  assert.equal(types(events).at(-2), 'tool-result')
  assert.equal((await api.call<{ state: string }>('GET', `/v1/sessions/${sessionId}`)).json.state, 'idle')
})

test('what a command prints on SIGTERM is in the journal, and the model reads it', async (t) => {
  const command = "trap 'echo stopping; exit 0' TERM; echo started; sleep 30 & wait"
  const { api } = await rig(t, inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }))
  const { events } = await cancelled(api, (event) => event.type === 'tool-output')
  const output = events.flatMap((event) => (event.type === 'tool-output' ? [event.text] : [])).join('')
  assert.equal(output, 'started\nstopping\n')
  const [result] = events.filter((event) => event.type === 'tool-result')
  assert.equal(result?.text, 'started\nstopping\n[cancelled: it was ended]')
})

test('a cancel during a backoff ends it at once, without another attempt', async (t) => {
  const { api, model } = await rig(t, () => ({ status: 503, headers: { 'retry-after': '30' } }))
  const { events } = await cancelled(api, (event) => event.type === 'retry')
  assert.equal(types(events).filter((type) => type === 'retry').length, 1)
  assert.equal(model.asked.length, 1)
})

test('a cancel during a runner look-up ends it at once', async (t) => {
  const url = `http://127.0.0.1:${await closedPort()}`
  const { api } = await rig(t, slowBash, { runner: { url } })
  const { events } = await cancelled(api, (event) => event.type === 'retry' && event.attempt === 2, {
    policy: { backoffMs: 60_000 },
  })
  assert.deepEqual([events.at(-2)?.type, (events.at(-2) as { outcome?: string }).outcome], ['tool-result', 'cancelled'])
  assert.equal(lastOf(events, 'turn-error').sideEffects, 'none')
})

test('a cancel of a parked turn ends it', async (t) => {
  const { api } = await rig(t, () => ({ status: 401 }))
  const { events } = await cancelled(api, (event) => event.type === 'parked')
  assert.ok(!types(events).includes('resumed'))
})

test('a queued turn that is cancelled never starts, and the next one does', async (t) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const { api } = await rig(t, (asked) =>
    asked.messages.at(-1)?.content === 'first' ? { text: 'one', until: held } : { text: 'two' },
  )
  const { id } = await api.session()
  const first = await api.prompt(id, 'first')
  const second = await api.prompt(id, 'second', { queue: true })
  const third = await api.prompt(id, 'third', { queue: true })
  assert.equal((await api.turn(second)).state, 'queued')
  const answer = await api.call<Turn>('POST', `/v1/turns/${second}/cancel`)
  assert.deepEqual([answer.status, answer.json.state], [200, 'cancelled'])
  release()
  const events = await api.ended(id, third)
  assert.deepEqual(
    events.filter((event) => event.turnId === second).map((event) => event.type),
    ['turn-queued', 'turn-error'],
  )
  assert.equal((await api.turn(first)).state, 'finished')
  assert.equal((await api.turn(third)).state, 'finished')
})

test('a queued turn that is cancelled while it is being started never starts, and the next one does', async (t) => {
  const model = Promise.withResolvers<void>()
  const config = Promise.withResolvers<void>()
  const reading = Promise.withResolvers<void>()
  let isHeld = false
  const reload = async (): Promise<never> => {
    if (isHeld) {
      reading.resolve()
      await config.promise
    }
    throw new Error('the configuration is being edited: the last one stays')
  }
  const { api } = await rig(t, () => ({ text: 'one', until: model.promise }), { reload })
  const { id } = await api.session()
  await api.prompt(id, 'first')
  await api.events(id, ({ type }) => type === 'step-start')
  const second = await api.prompt(id, 'second', { queue: true })
  const third = await api.prompt(id, 'third', { queue: true })
  isHeld = true
  model.resolve()
  await api.events(id, isTerminal)
  await reading.promise // a turn reads the configuration before it starts
  const answer = await api.call<Turn>('POST', `/v1/turns/${second}/cancel`)
  assert.deepEqual([answer.status, answer.json.state], [200, 'cancelled'])
  config.resolve()
  const events = await api.ended(id, third)
  assert.deepEqual(types(events.filter((event) => event.turnId === second)), ['turn-queued', 'turn-error'])
})

test('a late cancel of an ended turn does not touch the next one, and the provider accepts the history', async (t) => {
  const script: Script = (asked) => (asked.messages.at(-1)?.content === 'go' ? slowBash(asked, 1) : { text: 'fine' })
  const { api, model } = await rig(t, script)
  const { turnId, sessionId } = await cancelled(api, (event) => event.type === 'tool-output')
  const next = await api.prompt(sessionId, 'go on')
  assert.equal((await api.call('POST', `/v1/turns/${turnId}/cancel`)).status, 200)
  await api.ended(sessionId, next)
  assert.equal((await api.turn(next)).state, 'finished')
  const messages = model.asked.at(-1)?.messages ?? []
  const calls = messages.flatMap((message) => (message.tool_calls ?? []).map((call: { id: string }) => call.id))
  const results = messages.flatMap((message) => (message.tool_call_id === undefined ? [] : [message.tool_call_id]))
  assert.deepEqual(results, calls)
})

test('a cancel reaches a process whose runner is away for a moment', async (t) => {
  const runner = await testRunner(t)
  const { api } = await rig(t, slowBash, { runner: runner.config })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-output')
  await runner.stop()
  await api.call('POST', `/v1/turns/${turnId}/cancel`)
  await runner.again(runner.port)
  const events = await api.ended(id, turnId)
  const result = events.at(-2)
  assert.ok(result?.type === 'tool-result' && result.exit?.cause === 'killed', JSON.stringify(result))
  assert.equal(lastOf(events, 'turn-error').sideEffects, 'none')
})

test('a cancel whose process cannot be reached says so', async (t) => {
  const runner = await testRunner(t)
  const { api } = await rig(t, slowBash, { runner: runner.config, limits: { killMsMax: 300 } })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-output')
  await runner.stop()
  await api.call('POST', `/v1/turns/${turnId}/cancel`)
  const events = await api.ended(id, turnId)
  assert.match((events.at(-2) as { text?: string }).text ?? '', /may still be running/)
  assert.equal(lastOf(events, 'turn-error').sideEffects, 'unknown')
  await runner.again(runner.port)
})
