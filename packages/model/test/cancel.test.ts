/** Cancelling in every phase: immediate, reported once, and distinct from a deadline and from a provider's own abort. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { type AnswerEvent, streamAnswer } from '../src/index.ts'
import { ask, QUICK } from './collect.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, callStart, finish, role, text, thought } from '../../../test/kit/openai-frames.ts'
import { head, json, pause, type Play, reset, silence } from '../../../test/kit/plays.ts'

const REQUEST = { model: 'm', messages: [{ role: 'user', content: 'hi' }] } as const

/** Cancels when the server has reached that point. */
async function cancelled(play: (cancel: Play) => Play, reason?: unknown) {
  const controller = new AbortController()
  const cancel: Play = () => controller.abort(reason)
  const model = await startModelServer([play(cancel)])
  try {
    return { ...(await ask(model.url, {}, { signal: controller.signal })), requests: model.requests.length }
  } finally {
    await model.close()
  }
}

for (const [phase, play] of [
  ['while it waits for headers', (cancel: Play) => [cancel, silence]],
  ['after the headers', (cancel: Play) => [head(), cancel, silence]],
  ['in the middle of reasoning', (cancel: Play) => [head(), role, thought('hm'), cancel, silence]],
  ['in the middle of text', (cancel: Play) => [head(), role, text('Hel'), cancel, silence]],
  [
    'after the finish reason',
    (cancel: Play) => [head(), role, text('Hel'), finish('stop'), pause(20), cancel, silence],
  ],
  ['in the middle of a tool call', (cancel: Play) => [head(), role, callStart('c', 'bash', '{"c'), cancel, silence]],
] as const) {
  test(`a cancel ${phase} ends in cancelled and is not retried`, async () => {
    const got = await cancelled(play)
    assert.equal(got.fault?.fault.category, 'cancelled')
    assert.equal(got.fault?.fault.stopped, 'cancelled')
    assert.equal(got.requests, 1)
    assert.equal(got.fault?.budget.failures, 0)
  })
}

test('a cancel during backoff takes effect at once', async (t) => {
  const model = await startModelServer([json(503, {}, { 'retry-after': '50' })])
  t.after(() => model.close())
  const controller = new AbortController()
  const types: string[] = []
  for await (const event of streamAnswer({ baseUrl: model.url, ...REQUEST }, { signal: controller.signal })) {
    types.push(event.type)
    if (event.type === 'attempt-failed') {
      assert.equal(event.delayMs, 50_000)
      controller.abort()
    }
    if (event.type === 'fault') assert.equal(event.fault.category, 'cancelled')
  }
  assert.deepEqual(types, ['attempt-start', 'attempt-failed', 'fault'])
  assert.equal(model.requests.length, 1)
})

test('a cancel while connecting takes effect at once', async (t) => {
  const model = await startModelServer([answer('never heard')])
  t.after(() => model.close())
  const controller = new AbortController()
  const seen: AnswerEvent[] = []
  for await (const event of streamAnswer({ baseUrl: model.url, ...REQUEST }, { signal: controller.signal })) {
    seen.push(event)
    if (event.type === 'attempt-start') controller.abort() // no socket can be open yet
  }
  const end = seen.at(-1)
  assert.ok(end?.type === 'fault' && end.fault.category === 'cancelled')
  assert.deepEqual([end.ledger.length, end.ledger[0]?.phase, model.requests.length], [1, 'connect', 0])
})

test('a call that was cancelled before it started sends no request', async (t) => {
  const model = await startModelServer([answer('Hello')])
  t.after(() => model.close())
  const got = await ask(model.url, {}, { signal: AbortSignal.abort('no longer needed') })
  assert.equal(got.fault?.fault.category, 'cancelled')
  assert.match(got.fault?.fault.errorRaw ?? '', /no longer needed/)
  assert.equal(model.requests.length, 0)
})

test('a deadline is not a cancel: AbortSignal.timeout is deadline_exceeded', async (t) => {
  const model = await startModelServer([[head(), role, text('Hel'), silence]])
  t.after(() => model.close())
  const got = await ask(model.url, {}, { signal: AbortSignal.timeout(80) })
  assert.equal(got.fault?.fault.category, 'deadline_exceeded')
})

test('deadlineAt ends the stream, and stops retries that would come after it', async (t) => {
  const model = await startModelServer([[head(), role, text('Hel'), silence]])
  t.after(() => model.close())
  const got = await ask(model.url, {}, { deadlineAt: Date.now() + 80 })
  assert.equal(got.fault?.fault.category, 'deadline_exceeded')
  const busy = await startModelServer([json(503, {}, { 'retry-after': '50' })])
  t.after(() => busy.close())
  const late = await ask(busy.url, {}, { deadlineAt: Date.now() + 10_000 })
  assert.equal(late.fault?.fault.category, 'model_overloaded')
  assert.equal(late.fault?.fault.stopped, 'deadline_passed')
})

test('if the abort reason is a fault, the stream ends with that fault', async () => {
  const got = await cancelled((cancel) => [head(), cancel, silence], new Fault('shutting_down'))
  assert.equal(got.fault?.fault.category, 'shutting_down')
})

test('cancelling reaches the server: its connection is closed', async (t) => {
  const controller = new AbortController()
  const model = await startModelServer([[head(), role, text('x'), () => controller.abort(), silence]])
  t.after(() => model.close())
  await ask(model.url, {}, { signal: controller.signal })
  await model.untilAbandoned(1)
})

test('a consumer that breaks out of its loop closes the connection', async (t) => {
  const model = await startModelServer([[head(), role, text('x'), silence]])
  t.after(() => model.close())
  for await (const event of streamAnswer({ baseUrl: model.url, ...REQUEST }, { policy: QUICK }))
    if (event.type === 'text-delta') break
  await model.untilAbandoned(1)
  assert.equal(model.requests.length, 1)
})

test("a connection that breaks after the user's cancel is reported as the cancel", async () => {
  const got = await cancelled((cancel) => [head(), role, text('x'), cancel, reset])
  assert.equal(got.fault?.fault.category, 'cancelled')
})
