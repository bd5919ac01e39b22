/** What an HTTP error response means, by boundary: the typed code of the body first, then the status, text last. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type Boundary, classify, type FaultCategory, isFaultCategory } from '@breakfall/faults'
import { bodyMessage } from '@breakfall/faults/internal'
import { MESSAGE_TEXTS, PROVIDER_CODES, providerCodeCategory } from '../src/status.ts'

const classified = (boundary: Boundary, status: number, body?: unknown): FaultCategory =>
  classify(undefined, { boundary, response: { status, body } }).category

const MODEL_STATUSES: readonly [number, FaultCategory][] = [
  [302, 'model_endpoint_invalid'],
  [307, 'model_endpoint_invalid'],
  [400, 'model_bad_request'],
  [401, 'model_auth_failed'],
  [402, 'model_quota_exhausted'],
  [403, 'model_auth_failed'],
  [404, 'model_not_found'],
  [408, 'model_server_error'],
  [409, 'model_server_error'],
  [413, 'model_context_overflow'],
  [422, 'model_bad_request'],
  [429, 'model_rate_limited'],
  [500, 'model_server_error'],
  [502, 'model_server_error'],
  [503, 'model_overloaded'],
  [504, 'model_server_error'],
  [529, 'model_overloaded'],
]
for (const [status, category] of MODEL_STATUSES) {
  test(`a model server's bare ${status} is ${category}`, () => {
    assert.equal(classified('model', status), category)
    assert.equal(classified('model', status, '<html>proxy page</html>'), category)
  })
}

const BODIES: readonly [string, number, unknown, FaultCategory][] = [
  [
    'OpenAI: quota behind a 429',
    429,
    { error: { type: 'insufficient_quota', code: 'insufficient_quota' } },
    'model_quota_exhausted',
  ],
  [
    'OpenAI: overflow',
    400,
    { error: { code: 'context_length_exceeded', type: 'invalid_request_error' } },
    'model_context_overflow',
  ],
  [
    'Anthropic: overloaded',
    529,
    { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
    'model_overloaded',
  ],
  [
    'Anthropic: overflow in prose',
    400,
    {
      type: 'error',
      error: { type: 'invalid_request_error', message: 'prompt is too long: 213462 tokens > 200000 maximum' },
    },
    'model_context_overflow',
  ],
  [
    'llama.cpp: loading',
    503,
    { error: { code: 503, type: 'unavailable_error', message: 'Loading model' } },
    'model_overloaded',
  ],
  ['Azure: filter', 400, { error: { code: 'content_filter', status: 400 } }, 'model_content_filtered'],
  [
    'OpenRouter: a number for a code',
    200,
    { error: { code: 502, message: 'Provider returned error' } },
    'model_server_error',
  ],
  ['Google: resource exhausted', 429, { error: { code: 429, status: 'RESOURCE_EXHAUSTED' } }, 'model_rate_limited'],
  ['a 404 that calls itself api_error', 404, { error: { type: 'api_error' } }, 'model_not_found'],
  ['a 500 that blames the request', 500, { error: { code: 'invalid_api_key' } }, 'model_server_error'],
  ['Ollama: plain text', 404, { error: "model 'x' not found" }, 'model_not_found'],
]
for (const [name, status, body, category] of BODIES) {
  test(`${name} is ${category}`, () => assert.equal(classified('model', status, body), category))
}

const RUNNER_STATUSES: readonly [number, FaultCategory][] = [
  [401, 'runner_auth_failed'],
  [403, 'runner_auth_failed'],
  [404, 'runner_protocol_error'],
  [421, 'runner_identity_mismatch'],
  [500, 'runner_protocol_error'],
  [502, 'runner_unreachable'],
  [503, 'runner_unreachable'],
  [504, 'runner_unreachable'],
]
for (const [status, category] of RUNNER_STATUSES) {
  test(`at the runner a ${status} without a problem document is ${category}`, () =>
    assert.equal(classified('runner', status, 'text'), category))
}

test('at the daemon a 401 is a missing token', () => {
  assert.equal(classified('daemon', 401), 'unauthorized')
  assert.equal(classified('daemon', 404), 'not_found')
  assert.equal(classified('daemon', 500), 'other')
})

test('status, wait, request id and the start of the body are kept as evidence', () => {
  const fault = classify(new Error('429 status code'), {
    boundary: 'model',
    now: 0,
    response: {
      status: 429,
      headers: { 'retry-after': '3', 'x-request-id': 'req_1' },
      body: { error: { message: `slow down ${'x'.repeat(9_000)}` } },
    },
  })
  assert.equal(fault.report.status, 429)
  assert.equal(fault.report.retryAfterMs, 3_000)
  assert.equal(fault.report.requestId, 'req_1')
  assert.equal(fault.report.phase, 'headers')
  assert.match(fault.errorRaw, /^HTTP 429 \{"error":\{"message":"slow down x/)
  assert.ok(fault.errorRaw.length <= 4_096)
})

test('an error response without a body keeps what was thrown', () => {
  const fault = classify(new Error('400 status code (no body)'), { boundary: 'model', response: { status: 400 } })
  assert.equal(fault.errorRaw, 'HTTP 400 400 status code (no body)')
})

test('every provider code leads to a category in the table', () => {
  for (const [code, category] of Object.entries(PROVIDER_CODES)) {
    assert.ok(isFaultCategory(category))
    assert.equal(providerCodeCategory({ error: { code } }), category)
    assert.equal(providerCodeCategory({ type: 'error', error: { type: code } }), category)
  }
  assert.equal(providerCodeCategory({ error: { code: 'toString' } }), undefined)
  assert.equal(providerCodeCategory('text'), undefined)
})

for (const { pattern, category, seen } of MESSAGE_TEXTS) {
  test(`a message without a typed code is known by its text: ${seen}`, () => {
    assert.match(seen, pattern)
    assert.equal(classified('model', 400, { error: { message: seen, type: 'invalid_request_error' } }), category)
    assert.equal(classified('model', 400, `${seen}\n`), category, 'the sentence alone, from a proxy')
    assert.equal(classified('model', 400, `<p>${seen}</p>`), 'model_bad_request')
    assert.equal(classified('model', 400, { error: { message: `you said "${seen}"` } }), 'model_bad_request')
  })
}

test('the message of an error object is found where each server puts it', () => {
  assert.equal(bodyMessage({ error: { message: 'a' } }), 'a')
  assert.equal(bodyMessage({ message: 'b' }), 'b')
  assert.equal(bodyMessage({ error: 'c' }), 'c')
  assert.equal(bodyMessage({ detail: 'd' }), 'd')
  assert.equal(bodyMessage({ error: { error: { message: 'e' } } }), 'e')
  assert.equal(bodyMessage(null), undefined)
})

test('a server that loads its model reads as loading, not as overloaded', () => {
  for (const body of [
    { error: { code: 503, type: 'unavailable_error', message: 'Loading model' } },
    { error: 'Model bigscience/bloom is currently loading', estimated_time: 20 },
  ]) {
    const { report } = classify(undefined, { boundary: 'model', phase: 'headers', response: { status: 503, body } })
    assert.deepEqual([report.category, report.phase], ['model_overloaded', 'loading'])
    assert.match(report.error, /^The model server is still loading its model\./)
    assert.doesNotMatch(report.error, /overloaded/)
  }
})
