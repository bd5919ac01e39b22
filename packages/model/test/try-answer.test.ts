/** One attempt, for a caller that decides itself: no retry, no wait, no discard. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { type AnswerRequest, type ProfileName, tryAnswer, type TryEvent, type TryOptions } from '../src/index.ts'
import { canContinue, targetsOf } from '../src/internal.ts'
import { targetOf } from '../src/attempt/target.ts'
import { TOOLS } from './collect.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, role, text, toolAnswer } from '../../../test/kit/openai-frames.ts'
import { head, json, type Play, reset, silence } from '../../../test/kit/plays.ts'

type Ended = Extract<TryEvent, { type: 'done' | 'failed' }>

async function tried(t: TestContext, plays: readonly Play[], more: Partial<AnswerRequest> = {}, options?: TryOptions) {
  const model = await startModelServer(plays)
  t.after(() => model.close())
  const events: TryEvent[] = []
  const request = {
    baseUrl: model.url,
    model: 'fake-1',
    messages: [{ role: 'user', content: 'hi' }],
    tools: TOOLS,
  } as const
  for await (const event of tryAnswer({ ...request, ...more }, options)) events.push(event)
  const ends = events.filter((event): event is Ended => event.type === 'done' || event.type === 'failed')
  assert.deepEqual(ends, events.slice(-1), 'exactly one end, and it is the last')
  const said = events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('')
  return { events, said, end: ends[0], requests: model.requests }
}

test('a complete answer ends in done, with its calls just before it and its record', async (t) => {
  const got = await tried(t, [toolAnswer('bash', '{"command":"ls"}', [text('Let me look.')])], {}, { attempt: 3 })
  assert.ok(got.end?.type === 'done')
  assert.deepEqual([got.end.finish, got.end.proven], ['tool_calls', true])
  const call = got.events.at(-2)
  assert.ok(call?.type === 'tool-call')
  assert.deepEqual([call.attempt, call.arguments], [3, { command: 'ls' }])
  const { record } = got.end
  assert.deepEqual([record.attempt, record.phase, record.fault], [3, 'stream', null])
  assert.deepEqual(record.usage.outputTokens, { value: 7, quality: 'known' })
})

for (const [what, play, category] of [
  ['a refusal that streamAnswer would retry', json(503, {}, { 'retry-after': '1' }), 'model_overloaded'],
  ['a refusal that it would not retry', json(400, { error: { message: 'no' } }), 'model_bad_request'],
  ['a break in mid-text', [head(), role, text('Hel'), reset], 'model_stream_interrupted'],
] as const) {
  test(`${what} is reported, and not retried`, async (t) => {
    const got = await tried(t, [play, answer('never asked for')])
    assert.ok(got.end?.type === 'failed')
    assert.equal(got.end.fault.category, category)
    assert.equal(got.end.fault.retry, undefined, 'the caller decides what follows')
    assert.equal(got.end.record.fault?.category, category)
    assert.equal(got.end.diverged, false)
    assert.equal(got.requests.length, 1)
    assert.equal(got.events[0]?.type, 'attempt-start')
  })
}

test('another attempt can continue an interrupted text, and a third can continue that one', async (t) => {
  const profile = 'llama-cpp'
  const first = await tried(t, [[head(), role, text('Hello, my good and beautiful \n'), reset]], { profile })
  assert.ok(first.end?.type === 'failed')
  const second = await tried(
    t,
    [[head(), role, text(' my good and beautiful \nwor'), reset]],
    { profile },
    { attempt: 2, kept: first.said },
  )
  assert.ok(second.end?.type === 'failed' && !second.end.diverged)
  assert.equal(second.said, 'wor')
  const kept = first.said + second.said
  const third = await tried(t, [answer(' good and beautiful \nworld')], { profile }, { attempt: 3, kept })
  assert.ok(third.end?.type === 'done' && third.end.record.resumed)
  assert.equal(kept + third.said, 'Hello, my good and beautiful \nworld')
  const messages = third.requests[0]?.body['messages'] as object[]
  assert.deepEqual(messages.at(-1), { role: 'assistant', content: 'Hello, my' })
})

for (const [what, play, diverged, category] of [
  [
    'refuses to continue',
    json(400, { error: { message: 'This model does not support assistant message prefill.' } }),
    false,
    'model_bad_request',
  ],
  ['continues somewhere else', answer('\nworld'), true, 'model_stream_interrupted'],
] as const) {
  test(`a server that ${what} shows nothing, and the failure says which of the two it was`, async (t) => {
    const got = await tried(t, [play], { profile: 'vllm' }, { kept: 'Hello my good and beautiful ' })
    assert.ok(got.end?.type === 'failed')
    assert.deepEqual([got.end.diverged, got.end.fault.category], [diverged, category])
    assert.equal(got.said, '')
  })
}

test('an attempt that fails before it says anything has not diverged from the kept text', async (t) => {
  const got = await tried(t, [json(503, {})], { profile: 'vllm' }, { kept: 'Hello my good and beautiful' })
  assert.ok(got.end?.type === 'failed')
  assert.deepEqual([got.end.diverged, got.said], [false, ''])
})

test('invalid options throw at the call', () => {
  const request: AnswerRequest = { baseUrl: 'http://127.0.0.1:9/v1', model: 'm', messages: [] }
  assert.throws(() => tryAnswer(request, { kept: 'Hello my good and beautiful' }), /cannot continue the kept text/)
  assert.throws(() => tryAnswer(request, { policy: { livenessMs: NaN } }), { category: 'invalid_request' })
  const profiles: readonly (ProfileName | undefined)[] = [undefined, 'openai', 'vllm']
  assert.deepEqual(
    profiles.map((profile) => canContinue(targetOf({ ...request, profile }), 'Hello, my good and beautiful')),
    [false, false, true],
  )
  assert.equal(canContinue(targetOf({ ...request, profile: 'vllm' }), 'Hello'), false)
})

test('a cancel ends the attempt at once, before it starts and in the middle', async (t) => {
  const before = await tried(t, [answer('never')], {}, { signal: AbortSignal.abort() })
  assert.ok(before.end?.type === 'failed' && before.end.fault.category === 'cancelled')
  assert.equal(before.requests.length, 0)
  const model = await startModelServer([[head(), role, text('Hel'), silence]])
  t.after(() => model.close())
  const stop = new AbortController()
  const request = { baseUrl: model.url, model: 'm', messages: [{ role: 'user', content: 'hi' }] } as const
  const seen: TryEvent[] = []
  for await (const event of tryAnswer(request, { signal: stop.signal })) {
    seen.push(event)
    if (event.type === 'text-delta') stop.abort()
  }
  const end = seen.at(-1)
  assert.ok(end?.type === 'failed' && end.fault.category === 'cancelled')
  await model.untilAbandoned(1)
})

test('a deadline ends the attempt, too, and is not reported as a cancel', async (t) => {
  const got = await tried(t, [[head(), role, silence]], {}, { now: () => 1_000, deadlineAt: 900 })
  assert.ok(got.end?.type === 'failed' && got.end.fault.category === 'deadline_exceeded')
})

test('leaving the loop closes the connection', async (t) => {
  const model = await startModelServer([[head(), role, text('Hel'), silence]])
  t.after(() => model.close())
  for await (const event of tryAnswer({ baseUrl: model.url, model: 'm', messages: [] })) {
    if (event.type === 'text-delta') break
  }
  await model.untilAbandoned(1)
})

test('each target is the request with one fallback laid over it, and a key is never sent to another address', () => {
  const first: AnswerRequest = { baseUrl: 'http://a/v1', model: 'm', messages: [], apiKey: 'key-of-a', profile: 'vllm' }
  const targets = targetsOf(first, [{ model: 'n' }, { baseUrl: 'http://b/v1' }])
  assert.deepEqual(
    targets.map(({ request: { baseUrl, model, apiKey, profile } }) => [baseUrl, model, apiKey, profile]),
    [
      ['http://a/v1', 'm', 'key-of-a', 'vllm'],
      ['http://a/v1', 'n', 'key-of-a', 'vllm'],
      ['http://b/v1', 'm', undefined, undefined],
    ],
  )
})

test('onBytes is called for the head and for each read of the body, pings included', async (t) => {
  let reads = 0
  const { end } = await tried(t, [answer('Hello')], {}, { onBytes: () => void (reads += 1) })
  assert.equal(end?.type, 'done')
  assert.ok(reads >= 2, `the head and at least one read, got ${reads}`)
})
