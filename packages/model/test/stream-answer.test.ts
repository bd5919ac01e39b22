/** The basic rules of the client: a complete answer is returned, an incomplete one is asked for again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from './collect.ts'
import { startModelServer } from '../../../test/kit/model-server.ts'
import { answer, callStart, done, finish, role, text, toolAnswer } from '../../../test/kit/openai-frames.ts'
import { fin, head, json, lastChunk, reset } from '../../../test/kit/plays.ts'

test('a proper answer comes as deltas, usage and one done', async (t) => {
  const model = await startModelServer([answer('Hello', ' world')])
  t.after(() => model.close())
  const got = await ask(model.url)
  assert.equal(got.text, 'Hello world')
  assert.deepEqual(got.types, ['attempt-start', 'text-delta', 'text-delta', 'usage', 'done'])
  assert.equal(got.done?.finish, 'stop')
  assert.equal(got.done?.proven, true)
  assert.deepEqual(got.done?.usage, {
    inputTokens: { value: 12, quality: 'known' },
    outputTokens: { value: 7, quality: 'known' },
  })
  assert.equal(model.requests[0]?.path, '/v1/chat/completions')
  assert.equal(model.requests[0]?.body['stream'], true)
})

test('a stream that is reset in the middle of its text is asked for again, and nothing is shown twice', async (t) => {
  const model = await startModelServer([[head(), role, text('Hello wor'), reset], answer('Hello', ' world')])
  t.after(() => model.close())
  const got = await ask(model.url)
  assert.equal(got.text, 'Hello world')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
  assert.equal(got.failed[0]?.action, 'retry')
  assert.ok(got.types.indexOf('part-discarded') < got.types.indexOf('attempt-failed'))
})

test('a stream that ends without its last chunk is asked for again', async (t) => {
  const model = await startModelServer([[head(), role, text('Hel'), fin], answer('Hello')])
  t.after(() => model.close())
  const got = await ask(model.url)
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_interrupted')
})

test('a clean end without proof is not an answer', async (t) => {
  const model = await startModelServer([[head(), role, text('Hel'), lastChunk], answer('Hello')])
  t.after(() => model.close())
  const got = await ask(model.url)
  assert.equal(got.text, 'Hello')
  assert.equal(got.failed[0]?.fault.category, 'model_stream_incomplete')
})

test('a tool call is released complete, parsed, once, just before done', async (t) => {
  const model = await startModelServer([toolAnswer('bash', '{"command":"ls -la"}')])
  t.after(() => model.close())
  const got = await ask(model.url)
  assert.deepEqual(
    got.calls.map(({ callId, tool, arguments: args }) => ({ callId, tool, args })),
    [{ callId: 'call_1', tool: 'bash', args: { command: 'ls -la' } }],
  )
  assert.equal(got.types.at(-2), 'tool-call')
  assert.equal(got.done?.finish, 'tool_calls')
})

test('a call without arguments of a tool that needs them is not run as an empty call', async (t) => {
  const nameOnly = [head(), role, callStart('call_1', 'bash'), finish('tool_calls'), done, lastChunk]
  const model = await startModelServer([nameOnly, toolAnswer('bash', '{"command":"ls"}')])
  t.after(() => model.close())
  const got = await ask(model.url)
  assert.equal(got.failed[0]?.fault.category, 'tool_call_truncated')
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ command: 'ls' }],
  )
})

test('a conversation that only this server refuses is repaired, and from then on sent like that', async (t) => {
  const told = { message: 'Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.', code: '3280' }
  const model = await startModelServer([
    json(400, told),
    answer('Hello'),
    answer('again'),
    json(400, told),
    answer('no'),
  ])
  t.after(() => model.close())
  const call = { id: 'call_1', type: 'function' as const, function: { name: 'bash', arguments: '{}' } }
  const messages = [
    { role: 'user' as const, content: 'go' },
    { role: 'assistant' as const, content: null, tool_calls: [call] },
    { role: 'tool' as const, tool_call_id: 'call_1', content: 'ok' },
  ]
  const got = await ask(model.url, { messages })
  assert.equal(got.text, 'Hello')
  const [failed] = got.failed
  assert.deepEqual([failed?.fault.category, failed?.fault.reason, failed?.action], ['model_history_invalid', 'call_id_malformed', 'retry']) // prettier-ignore
  assert.match(failed?.fault.error ?? '', /has repaired it \(call_id_malformed, messages\.1\)\. Breakfall will retry/)
  const more = [...messages, { role: 'assistant' as const, content: 'a' }, { role: 'user' as const, content: 'b' }]
  assert.equal((await ask(model.url, { messages: more })).text, 'again')
  assert.equal(model.requests.length, 3, 'the second answer needed no refusal')
  for (const { text: sent } of model.requests.slice(1)) assert.doesNotMatch(sent, /call_1"/)
  const refused = await ask(model.url, { messages: more })
  assert.deepEqual([refused.fault?.fault.category, model.requests.length], ['model_history_invalid', 4])
})
