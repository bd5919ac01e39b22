/**
 * What Claude Code expects from a gateway, as its documentation of gateways says: the API's version and beta headers, the session
 * header and fields that the gateway does not know reach the model unchanged, in every attempt; counting tokens passes through; and
 * its fallback without streaming is healed too.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { message } from '../../../test/kit/anthropic-frames.ts'
import { json, reset } from '../../../test/kit/plays.ts'
import { post, stand } from './client.ts'

const HEADERS = {
  'x-api-key': 'mine',
  'anthropic-version': '2023-06-01',
  'anthropic-beta': 'context-1m-2025-08-07,interleaved-thinking-2025-05-14',
  'x-claude-code-session-id': '4f7c2a',
  'x-app': 'cli',
}
const BODY =
  '{"model":"claude-fake","stream":true,"max_tokens":10,  "messages":[{"role":"user","content":"hi"}],"context_management":{"edits":[]},"thinking":{"type":"adaptive"},"new_field":1.0}'

const sentHeaders = (headers: NodeJS.Dict<string | string[]>): object =>
  Object.fromEntries(Object.keys(HEADERS).map((name) => [name, headers[name]]))

test('headers and unknown fields of Claude Code reach the model unchanged, in every attempt', async (t) => {
  const { model, gateway } = await stand(t, [[reset], message('Hi')])
  const res = await post(`${gateway.url}/messages?beta=true`, BODY, { headers: HEADERS })
  assert.match(await res.text(), /message_stop/)
  assert.equal(model.requests.length, 2)
  for (const request of model.requests) {
    assert.equal(request.path, '/v1/messages?beta=true')
    assert.equal(request.text, BODY)
    assert.deepEqual(sentHeaders(request.headers), HEADERS)
  }
})

test('counting tokens passes through', async (t) => {
  const { model, gateway } = await stand(t, [json(200, { input_tokens: 12 })])
  const res = await post(`${gateway.url}/messages/count_tokens?beta=true`, BODY, { headers: HEADERS })
  assert.deepEqual(await res.json(), { input_tokens: 12 })
  assert.equal(model.requests[0]?.path, '/v1/messages/count_tokens?beta=true')
  assert.equal(model.requests[0]?.text, BODY)
})

test('the request without streaming that Claude Code falls back to is healed too', async (t) => {
  const whole = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-fake',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }
  const { model, gateway } = await stand(t, [
    [reset],
    json(529, { type: 'error', error: { type: 'overloaded_error', message: 'no' } }),
    json(200, whole),
  ])
  const res = await post(`${gateway.url}/messages`, BODY.replace('"stream":true', '"stream":false'), {
    headers: HEADERS,
  })
  assert.deepEqual([res.status, await res.json()], [200, whole])
  assert.equal(model.requests.length, 3)
})
