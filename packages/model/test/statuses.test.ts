/** What an error status means: which ones are retried, for how long, and which ones end the answer at once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AnswerEvent, AnswerOptions } from '../src/index.ts'
import { streamAnswer } from '../src/index.ts'
import { play } from './play.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer } from '../../../test/kit/openai-frames.ts'
import { fin, head, json, type Play } from '../../../test/kit/plays.ts'

const GOOD = answer('Hello')
const error = (more: object = {}): object => ({ error: { message: 'no', ...more } })

/** The first failure, without waiting for what follows it. */
async function firstFailure(refusal: Play, options: AnswerOptions = {}) {
  const model = await startModelServer([refusal])
  try {
    const request = { baseUrl: model.url, model: 'm', messages: [{ role: 'user', content: 'hi' }] } as const
    for await (const event of streamAnswer(request, options)) {
      if (event.type === 'attempt-failed') return event satisfies AnswerEvent
    }
    return assert.fail('it did not fail')
  } finally {
    await model.close()
  }
}

for (const [status, category] of [
  [408, 'model_server_error'],
  [409, 'model_server_error'],
  [429, 'model_rate_limited'],
  [500, 'model_server_error'],
  [502, 'model_server_error'],
  [503, 'model_overloaded'],
  [504, 'model_server_error'],
  [524, 'model_server_error'],
  [529, 'model_overloaded'],
] as const) {
  test(`status ${status} is ${category} and is retried`, async () => {
    const got = await play([json(status, error()), GOOD])
    assert.equal(got.text, 'Hello')
    assert.equal(got.failed[0]?.fault.category, category)
    assert.equal(got.failed[0]?.fault.status, status)
  })
}

for (const [status, body, category] of [
  [400, error({ type: 'invalid_request_error' }), 'model_bad_request'],
  [401, error({ code: 'invalid_api_key' }), 'model_auth_failed'],
  [403, error(), 'model_auth_failed'],
  [404, error({ code: 'model_not_found' }), 'model_not_found'],
  [405, error(), 'model_bad_request'],
  [422, error(), 'model_bad_request'],
  [400, error({ code: 'context_length_exceeded' }), 'model_context_overflow'],
  [400, error({ type: 'exceed_context_size_error', code: 400 }), 'model_context_overflow'],
  [413, error(), 'model_context_overflow'],
  [429, error({ code: 'insufficient_quota' }), 'model_quota_exhausted'],
  [402, error(), 'model_quota_exhausted'],
  [400, error({ code: 'content_filter' }), 'model_content_filtered'],
] as const) {
  test(`a genuine API error is not retried: status ${status} is ${category} after one request`, async () => {
    const got = await play([json(status, body), GOOD])
    assert.equal(got.fault?.fault.category, category)
    assert.equal(got.requests.length, 1)
    assert.equal(got.fault?.ledger.length, 1)
  })
}

test('an overflow asks its caller to compact, once', async () => {
  const overflow = json(400, error({ code: 'context_length_exceeded' }))
  assert.equal((await play([overflow])).fault?.decision.action, 'compact')
  assert.equal((await play([overflow], {}, { compacted: true })).fault?.decision.action, 'stop')
})

test('a spent quota is distinguished from a rate limit, and parks if the caller can park', async () => {
  const spent = json(429, error({ code: 'insufficient_quota' }))
  assert.equal((await play([spent], {}, { canPark: true })).fault?.decision.action, 'park')
  assert.equal((await play([spent])).fault?.decision.action, 'stop')
})

test('a refusal with an interrupted body is judged by its status', async () => {
  const got = await play([[head(500, { 'content-type': 'application/json' }), fin], GOOD])
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_server_error')
})

for (const status of [408, 409, 429, 500, 502, 503, 504, 529]) {
  test(`Retry-After in seconds is respected, never shortened: status ${status}`, async () => {
    const failed = await firstFailure(json(status, error(), { 'retry-after': '7' }))
    assert.equal(failed.delayMs, 7_000)
    assert.equal(failed.fault.retryAfterMs, 7_000)
  })
}

test('Retry-After as a date is respected', async () => {
  const now = Date.UTC(2026, 10, 15)
  const header = { 'retry-after': new Date(now + 9_000).toUTCString() }
  assert.equal((await firstFailure(json(503, error(), header), { now: () => now })).delayMs, 9_000)
})

test('retry-after-ms takes precedence over Retry-After', async () => {
  const failed = await firstFailure(json(429, error(), { 'retry-after-ms': '2500', 'retry-after': '30' }))
  assert.equal(failed.delayMs, 2_500)
})

test('without Retry-After the wait is jittered backoff', async () => {
  const low = await firstFailure(json(429, error()), { dice: () => 0 })
  const high = await firstFailure(json(429, error()), { dice: () => 1 })
  assert.deepEqual([low.delayMs, high.delayMs], [100, 500])
})

test('an absurd Retry-After is not waited out: it parks, or stops if the caller cannot park', async () => {
  const now = Date.UTC(2026, 10, 15)
  const day = json(429, error(), { 'retry-after': '36000' })
  const parked = await play([day], {}, { canPark: true, now: () => now })
  assert.deepEqual(parked.fault?.decision, {
    action: 'park',
    resumeAt: now + 36_000_000,
    because: 'retry_after_too_long',
  })
  assert.equal(parked.fault?.fault.retry?.nextAt, new Date(now + 36_000_000).toISOString())
  const stopped = await play([day])
  assert.equal(stopped.fault?.decision.action, 'stop')
  assert.equal(stopped.fault?.fault.stopped, 'retry_after_too_long')
  assert.equal(stopped.requests.length, 1)
})

test('an invalid Retry-After is ignored', async () => {
  const failed = await firstFailure(json(429, error(), { 'retry-after': 'soon' }), { dice: () => 0.5 })
  assert.equal(failed.delayMs, 300)
})

test('the request id of the provider is kept, and its key is not', async () => {
  const got = await play([
    json(401, error({ message: 'bad key sk-proj-abcdefghijklmnopqrstuvwxyz012345' }), { 'x-request-id': 'req_9' }),
  ])
  assert.equal(got.fault?.fault.requestId, 'req_9')
  assert.equal(got.fault?.fault.errorRaw.includes('abcdefghijklmnop'), false)
})
