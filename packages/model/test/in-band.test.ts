/** What servers send inside the stream: errors, nonsense, odd but valid framing, filters, limits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GOOD, play } from './play.ts'
import { done, finish, frame, role, text } from '../../../test/kit/openai-frames.ts'
import { head, lastChunk, type Play, silence } from '../../../test/kit/plays.ts'

const IN_BAND: readonly (readonly [string, unknown, string])[] = [
  ['a server_error', { error: { message: 'boom', type: 'server_error', code: null } }, 'model_server_error'],
  ['an overloaded_error', { error: { message: 'busy', type: 'overloaded_error' } }, 'model_overloaded'],
  ['a rate limit', { error: { message: 'slow', code: 'rate_limit_exceeded' } }, 'model_rate_limited'],
  ['a numeric code', { error: { message: 'upstream', code: 502 } }, 'model_server_error'],
  ['a bare text', { error: 'model runner has unexpectedly stopped' }, 'model_server_error'],
  ['an object of type error', { object: 'error', message: 'x', type: 'InternalServerError' }, 'model_server_error'],
]

for (const [what, error, category] of IN_BAND) {
  test(`${what} inside the stream is ${category} and is retried, even if [DONE] follows`, async () => {
    const got = await play([[head(), role, text('Hel'), frame(error), done, lastChunk], GOOD])
    assert.equal(got.text, 'Hello world')
    assert.equal(got.failed[0]?.fault.category, category)
  })
}

const FINAL_IN_BAND: readonly (readonly [string, unknown, string])[] = [
  ['a bad request', { error: { message: 'bad', type: 'invalid_request_error' } }, 'model_bad_request'],
  ['an overflow', { error: { message: 'long', code: 'context_length_exceeded' } }, 'model_context_overflow'],
  ['a spent quota', { error: { message: 'no', code: 'insufficient_quota' } }, 'model_quota_exhausted'],
]

for (const [what, error, category] of FINAL_IN_BAND) {
  test(`${what} inside the stream is ${category} and is not retried`, async () => {
    const got = await play([[head(), role, frame(error), lastChunk], GOOD])
    assert.equal(got.fault?.fault.category, category)
    assert.equal(got.requests.length, 1)
  })
}

test('a malformed line is a break, not a crash', async () => {
  const got = await play([[head(), role, text('Hel'), 'data: {"choices": [oops\n\n', silence], GOOD])
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('comments, unknown fields, empty lines, CRLF and byte order marks are read as the format says', async () => {
  const odd =
    '\uFEFF: hello\r\n\r\nfoo: bar\r\nretry: 5\r\n\r\n\r\ndata:{"choices":[{"index":0,"delta":{"content":"Hello"}}]}\r\n\r\n'

  const got = await play([[head(), odd, finish('stop'), done, lastChunk]])
  assert.equal(got.text, 'Hello')
})

test('an answer that arrives one byte at a time is the same answer', async () => {
  const frames = [
    'data: {"choices":[{"index":0,"delta":{"content":"Grüß "}}]}\n\n',
    ': ping\n\n',
    'data: {"choices":[{"index":0,"delta":{"content":"dich 🥋"}}]}\r\n\r\n',
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
  ]
  const single = Array.from(Buffer.from(frames.join('')), (byte) => Buffer.from([byte]))
  const got = await play([[head(), ...single, lastChunk]])
  assert.equal(got.text, 'Grüß dich 🥋')
  assert.equal(got.requests.length, 1)
})

test('a content filter ends the answer and is not retried', async () => {
  const got = await play([[head(), role, text('How to'), finish('content_filter'), done, lastChunk], GOOD])
  assert.equal(got.fault?.fault.category, 'model_content_filtered')
  assert.equal(got.requests.length, 1)
})

test("a provider's own abort message is not the user's cancel", async () => {
  const aborted = { error: { message: 'This operation was aborted', type: 'AbortError' } }
  const got = await play([[head(), role, frame(aborted), lastChunk], GOOD])
  assert.equal(got.text, 'Hello world')
})

test('an answer cut by its length limit is returned with that finish reason', async () => {
  const got = await play([[head(), role, text('Once upon'), finish('length'), done, lastChunk]])
  assert.equal(got.text, 'Once upon')
  assert.equal(got.done?.finish, 'length')
})

test('reasoning and text are separated under all the names that servers use', async () => {
  const delta = (value: object): Play => frame({ choices: [{ index: 0, delta: value }] })
  const pieces = delta({
    content: [
      { type: 'thinking', thinking: [{ type: 'text', text: 'c' }] },
      { type: 'text', text: 'B' },
    ],
  })
  const got = await play([
    [
      head(),
      delta({ reasoning_content: 'a' }),
      delta({ reasoning: 'b' }),
      delta({ content: 'A' }),
      pieces,
      finish('stop'),
      done,
      lastChunk,
    ],
  ])
  assert.equal(got.reasoning, 'abc')
  assert.equal(got.text, 'AB')
})
