/** What the relay's client gets when an answer cannot be healed, and while attempts are being made. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GOOD } from './play.ts'
import { bodyOf, relayed } from './relayed.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, frame, role } from '../../../test/kit/openai-frames.ts'
import { head, json, lastChunk, pause, type Play, reset, silence } from '../../../test/kit/plays.ts'

// ---- spent attempts and refusals ----

test("when the attempts are spent the client gets the server's own status and body, with x-should-retry: false", async () => {
  const body = { error: { message: 'boom', type: 'server_error', own: true } }
  const got = await relayed([json(500, body, { 'x-request-id': 'req_1' })], { policy: { attemptsMax: 3 } })
  assert.equal(got.status, 500)
  assert.deepEqual(JSON.parse(got.body), body)
  assert.equal(got.headers['x-should-retry'], 'false')
  assert.equal(got.headers['x-breakfall-category'], 'model_server_error')
  assert.equal(got.headers['x-request-id'], 'req_1')
  assert.equal(got.requests.length, 3)
})

test('a genuine 4xx is forwarded unchanged, after one attempt', async () => {
  const body = { error: { message: 'bad', type: 'invalid_request_error' } }
  const got = await relayed([json(400, body)])
  assert.equal(got.status, 400)
  assert.deepEqual(JSON.parse(got.body), body)
  assert.equal(got.headers['x-should-retry'], undefined)
  assert.equal(got.requests.length, 1)
})

for (const stream of [true, false]) {
  test(`an error with status 200 ${stream ? 'in a stream' : 'in one piece'} keeps its body and gets the status it means`, async () => {
    const error = { message: 'too long', type: 'invalid_request_error', param: null, code: 'context_length_exceeded' }
    const play: Play = stream ? [head(), role, frame({ error }), lastChunk] : json(200, { error })
    const got = await relayed([play], { body: { stream } })
    assert.equal(got.status, 413)
    assert.deepEqual(JSON.parse(got.body), { error })
    assert.equal(got.headers['x-breakfall-category'], 'model_context_overflow')
    assert.equal(got.requests.length, 1)
  })
}

test('retry-after is forwarded with the refusal', async () => {
  const got = await relayed([json(429, { error: {} }, { 'retry-after': '3600' })])
  assert.equal(got.status, 429)
  assert.equal(got.headers['retry-after'], '3600')
  assert.equal(got.headers['x-should-retry'], 'false')
  assert.equal(got.requests.length, 1)
})

for (const [what, play, status, category, headersMs] of [
  ['the server closes the connection', [reset], 502, 'model_stream_interrupted', 10_000],
  ['it only stalls', [silence], 504, 'model_stream_stalled', 40],
] as const) {
  test(`if ${what}, the client gets ${status} in the format of its API`, async () => {
    const got = await relayed([play], { policy: { attemptsMax: 2, headersMs } })
    assert.equal(got.status, status)
    const { error } = JSON.parse(got.body) as { error: { code: string; type: string; param: null } }
    assert.deepEqual([error.code, error.type, error.param], [category, 'server_error', null])
    assert.equal(got.headers['x-should-retry'], 'false')
  })
}

test('an unusable target is an error response, not an exception', async () => {
  const got = await relayed([GOOD], { fallback: [] })
  assert.equal(got.status, 200)
  const { relayAnswer } = await import('../src/internal.ts')
  const request = { api: 'openai-chat', method: 'POST', search: '', headers: {} } as const
  for (const stream of [true, false]) {
    let status = 0
    const sink = {
      head: (code: number) => (status = code),
      write: () => true,
      drained: () => Promise.resolve(),
      end: () => undefined,
    }
    await relayAnswer({ ...request, ...(await bodyOf({ stream })) }, [{ baseUrl: 'nonsense' }], sink)
    assert.equal(status, 502)
  }
})

test('a fallback is asked when the attempts at the first target are spent', async (t) => {
  const spare = await startModelServer([answer('spare')])
  t.after(() => spare.close())
  const fallback = [{ baseUrl: spare.url, model: 'spare-1', headers: { authorization: 'Bearer spare-key' } }]
  const got = await relayed([json(503, {})], { policy: { attemptsMax: 2 }, fallback })
  assert.equal(got.text, 'spare')
  assert.equal(spare.requests[0]?.body['model'], 'spare-1')
  assert.equal(spare.requests[0]?.headers['authorization'], 'Bearer spare-key')
})

test('a call that the server itself could not parse is asked for again, though it says 400', async () => {
  const message = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
  const refusal = {
    error: { message, type: 'invalid_request_error', code: 'tool_use_failed', failed_generation: '<f' },
  }
  const got = await relayed([json(400, refusal), json(400, refusal), GOOD])
  assert.deepEqual([got.status, got.text, got.requests.length], [200, 'Hello world', 3])
  const never = await relayed([json(400, refusal)], { policy: { attemptsMax: 2 } })
  assert.deepEqual([never.status, never.requests.length, JSON.parse(never.body)], [400, 2, refusal])
})

// ---- the head and pings ----

test('during retries the head goes out after the ping time, with pings, and comments announce each retry', async () => {
  const slow: Play = [pause(150), ...json(500, {})]
  const got = await relayed([slow, GOOD], { pingMs: 50 })
  assert.equal(got.status, 200)
  assert.equal(got.text, 'Hello world')
  assert.ok(got.comments.includes('ping'))
  assert.ok(got.comments.some((comment) => /^breakfall retry 2\/6 model_server_error in \d+ ms$/.test(comment)))
})

test('a failure after the head went out is reported inside the stream', async () => {
  const slow: Play = [pause(150), ...json(400, { error: { message: 'bad' } })]
  const got = await relayed([slow], { pingMs: 50 })
  assert.equal(got.status, 200)
  assert.equal(got.error?.code, 'model_bad_request')
})
