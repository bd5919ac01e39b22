/** What the relay holds back: tool calls until they are proven, the whole answer, or nothing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GOOD } from './play.ts'
import { relayed } from './relayed.ts'
import { answer, callMore, callStart, done, finish, role, text, toolAnswer } from '../../../test/kit/openai-frames.ts'
import { head, lastChunk, type Play, reset } from '../../../test/kit/plays.ts'

const CALL = toolAnswer('bash', '{"command":"ls"}', [text('Let me')])
const CALL_CUT: Play = [head(), role, text('Let me'), callStart('c1', 'bash'), callMore('{"comma'), reset]

test('a tool call goes out once it is complete, after the text before it', async () => {
  const got = await relayed([CALL])
  assert.equal(got.text, 'Let me')
  assert.deepEqual(got.calls, ['{"command":"ls"}'])
})

test('with hold tools, an interrupted call after text is healed by an identical beginning', async () => {
  const got = await relayed([CALL_CUT, CALL])
  assert.equal(got.text, 'Let me')
  assert.deepEqual(got.calls, ['{"command":"ls"}'])
  assert.equal(got.error, undefined)
})

test('with hold tools, no part of a call that stays cut goes out', async () => {
  const got = await relayed([CALL_CUT], { policy: { attemptsMax: 2 } })
  assert.deepEqual(got.calls, [])
  assert.equal(got.error?.code, 'model_stream_interrupted')
  const cut: Play = [head(), role, callStart('c', 'bash', '{"com'), finish('length'), done, lastChunk]
  const length = await relayed([cut], { policy: { attemptsMax: 2 } })
  assert.equal(length.status, 502)
  assert.equal(length.headers['x-breakfall-category'], 'tool_call_truncated')
})

test('with hold answer, every break heals and nothing is sent before the answer is complete', async () => {
  const script = [[head(), role, text('Howdy'), reset], CALL_CUT, [head(), role, text('Hey'), lastChunk], GOOD]
  const got = await relayed(script, { hold: 'answer' })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.error, undefined)
})

test('with hold answer, an answer beyond the limit is sent as it arrives', async () => {
  const got = await relayed([answer('a'.repeat(600), 'b'.repeat(600), 'c')], { hold: 'answer', holdBytesMax: 1_000 })
  assert.equal(got.text.length, 1_201)
})

test('with hold none, an interrupted call ends in an error', async () => {
  const got = await relayed([CALL_CUT, CALL], { hold: 'none' })
  assert.equal(got.error?.code, 'model_stream_interrupted')
  assert.equal(got.requests.length, 1)
})
