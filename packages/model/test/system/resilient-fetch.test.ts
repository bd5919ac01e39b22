/** The official clients with our `fetch`: they never see a fault that can be healed before content. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, streamText, type Tool, tool } from 'ai'
import OpenAI from 'openai'
import { resilientFetch, type ResilientFetchOptions } from '../../src/index.ts'
import {
  blockText,
  errorEvent,
  message,
  messageStart,
  textBlock,
  toolMessage,
} from '../../../../test/kit/anthropic-frames.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { answer, callStart, done, finish, frame, role, text, toolAnswer } from '../../../../test/kit/openai-frames.ts'
import { fin, head, json, lastChunk, type Play, reset, silence } from '../../../../test/kit/plays.ts'
import { TOOLS } from '../collect.ts'

const OPTIONS: ResilientFetchOptions = { policy: { backoffMs: 1, livenessMs: 400, headersMs: 400, attemptsMax: 3 } }

async function started(t: TestContext, plays: readonly Play[]) {
  const model = await startModelServer(plays)
  t.after(() => model.close())
  return model
}

const openai = (baseURL: string, options = OPTIONS): OpenAI =>
  new OpenAI({ baseURL, apiKey: 'k', fetch: resilientFetch(options) })
const anthropic = (url: string): Anthropic =>
  new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: 'k', fetch: resilientFetch(OPTIONS) })
const compatible = (baseURL: string) =>
  createOpenAICompatible({ name: 'fake', baseURL, fetch: resilientFetch(OPTIONS) }).chatModel('fake-1')

const MESSAGES = [{ role: 'user', content: 'hi' }] as const

async function streamed(client: OpenAI): Promise<string> {
  const stream = await client.chat.completions.create({
    model: 'fake-1',
    messages: [...MESSAGES],
    stream: true,
    tools: [...TOOLS],
  })
  let held = ''
  for await (const chunk of stream) held += chunk.choices[0]?.delta.content ?? ''
  return held
}

const BEFORE_CONTENT: readonly (readonly [string, Play])[] = [
  ['a reset', [reset]],
  ['a close', [fin]],
  ['a close after the headers', [head(), fin]],
  ['a break after the role', [head(), role, reset]],
  ['a clean early end', [head(), role, lastChunk]],
  ['a server that never answers', [silence]],
  ['a stall', [head(), role, silence]],
  ['status 500', json(500, {})],
  ['status 429', json(429, {}, { 'retry-after-ms': '1' })],
  ['an error inside the stream', [head(), frame({ error: { message: 'x', type: 'server_error' } }), lastChunk]],
  ['a malformed line', [head(), frame('{oops'), silence]],
  ['a cut tool call', [head(), role, callStart('c', 'bash', '{"co'), finish('tool_calls'), done, lastChunk]],
]

for (const [what, broken] of BEFORE_CONTENT) {
  test(`the openai package does not see ${what} before content`, async (t) => {
    const model = await started(t, [broken, answer('Hello', ' world')])
    assert.equal(await streamed(openai(model.url)), 'Hello world')
    assert.equal(model.requests.length, 2)
  })
}

test('the openai package sees a silent cut as an error', async (t) => {
  const model = await started(t, [[head(), role, text('Hel'), lastChunk], answer('Howdy')])
  await assert.rejects(
    streamed(openai(model.url, { ...OPTIONS, hold: 'tools' })),
    (error: InstanceType<typeof OpenAI.APIError>) => {
      assert.equal(error.code, 'model_stream_interrupted')
      assert.match(error.message, /ended without/)
      return true
    },
  )
})

test('the openai package never sees a break in an answer that may call a tool', async (t) => {
  const model = await started(t, [[head(), role, text('Hel'), lastChunk], answer('Howdy')])
  assert.equal(await streamed(openai(model.url)), 'Howdy')
})

test('the openai package alone mistakes the same cut for an answer', async (t) => {
  const model = await started(t, [[head(), role, text('Hel'), lastChunk]])
  assert.equal(await streamed(new OpenAI({ baseURL: model.url, apiKey: 'k' })), 'Hel')
})

test('the openai package gets an answer in one piece after faults', async (t) => {
  const whole = { choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }] }
  const model = await started(t, [[reset], json(503, {}), json(200, whole)])
  const got = await openai(model.url).chat.completions.create({ model: 'm', messages: [...MESSAGES] })
  assert.equal(got.choices[0]?.message.content, 'Hello')
})

test('the openai package does not multiply the attempts already made', async (t) => {
  const model = await started(t, [json(500, { error: { message: 'boom' } })])
  await assert.rejects(streamed(openai(model.url)), { status: 500 })
  assert.equal(model.requests.length, 3)
  const dead = await started(t, [[reset]])
  await assert.rejects(streamed(openai(dead.url)), { status: 502, code: 'model_stream_interrupted' })
  assert.equal(dead.requests.length, 3)
})

test('a genuine 4xx reaches the openai package unchanged, after one attempt', async (t) => {
  const model = await started(t, [json(400, { error: { message: 'bad', type: 'invalid_request_error', code: 'own' } })])
  await assert.rejects(streamed(openai(model.url)), { status: 400, code: 'own' })
  assert.equal(model.requests.length, 1)
})

test('an abort of the openai package reaches the server', async (t) => {
  const model = await started(t, [[head(), role, text('Hel'), silence]])
  const controller = new AbortController()
  const client = openai(model.url, { policy: { backoffMs: 1 } })
  const stream = await client.chat.completions.create(
    { model: 'm', messages: [...MESSAGES], stream: true },
    { signal: controller.signal },
  )
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content != null) controller.abort()
  await model.untilAbandoned(1)
  assert.equal(model.requests.length, 1)
})

test('an abort before the headers rejects as fetch does', async (t) => {
  const model = await started(t, [[silence]])
  const controller = new AbortController()
  const init = { method: 'POST', body: '{"stream":true}', signal: controller.signal }
  const answer = resilientFetch()(`${model.url}/chat/completions`, init)
  await model.untilRequests(1)
  controller.abort(new DOMException('too late', 'TimeoutError')) // as AbortSignal.timeout does
  await assert.rejects(answer, { name: 'TimeoutError' })
  await model.untilAbandoned(1)
})

test('each chunk of the body has its own memory, as with fetch', async (t) => {
  const words = Array.from({ length: 200 }, (_, index) => text(` word${index}`))
  const model = await started(t, [[head(), [role, ...words, finish('stop'), done].join(''), lastChunk]])
  const body = JSON.stringify({ model: 'fake-1', messages: MESSAGES, stream: true })
  const res = await resilientFetch(OPTIONS)(`${model.url}/chat/completions`, { method: 'POST', body })
  const chunks = await Array.fromAsync(res.body ?? [])
  assert.ok(chunks.some(({ length }) => length > 4_096))
  for (const chunk of chunks) {
    assert.equal(Object.getPrototypeOf(chunk), Uint8Array.prototype)
    assert.equal(chunk.buffer.byteLength, chunk.length)
  }
})

test('other calls go to the plain fetch', async (t) => {
  const model = await started(t, [json(200, { object: 'list', data: [{ id: 'm' }] })])
  const list = await openai(model.url).models.list()
  assert.equal(list.data[0]?.id, 'm')
  assert.equal(model.requests[0]?.path, '/v1/models')
})

for (const [what, broken] of BEFORE_CONTENT) {
  test(`the ai package does not see ${what} before content`, async (t) => {
    const model = await started(t, [broken, answer('Hello', ' world')])
    const result = streamText({ model: compatible(model.url), prompt: 'hi', maxRetries: 0 })
    assert.equal(await result.text, 'Hello world')
    assert.equal(await result.finishReason, 'stop')
  })
}

test('the ai package gets an answer in one piece after a reset', async (t) => {
  const whole = { choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }] }
  const model = await started(t, [[reset], json(200, whole)])
  assert.equal((await generateText({ model: compatible(model.url), prompt: 'hi', maxRetries: 0 })).text, 'ok')
})

test('the ai package sees a silent cut as an error', async (t) => {
  const model = await started(t, [[head(), role, text('Hel'), lastChunk], answer('Howdy')])
  const errors: unknown[] = []
  const result = streamText({
    model: compatible(model.url),
    prompt: 'hi',
    maxRetries: 0,
    onError: ({ error }) => void errors.push(error),
  })
  let held = ''
  for await (const part of result.fullStream) if (part.type === 'text-delta') held += part.text
  assert.equal(held, 'Hel')
  assert.equal(errors.length, 1)
  assert.match(String(errors[0]), /complete/)
})

test('the ai package looks only at the status: with its own retries off, attempts are not multiplied', async (t) => {
  const model = await started(t, [json(500, { error: { message: 'boom' } })])
  const ask = generateText({ model: compatible(model.url), prompt: 'hi', maxRetries: 0 })
  await assert.rejects(ask, { statusCode: 500 })
  assert.equal(model.requests.length, 3)
})

test('a genuine 4xx reaches the ai package unchanged, after one attempt', async (t) => {
  const model = await started(t, [json(400, { error: { message: 'bad', type: 'invalid_request_error', code: 'own' } })])
  await assert.rejects(generateText({ model: compatible(model.url), prompt: 'hi' }), { statusCode: 400 })
  assert.equal(model.requests.length, 1)
})

test('an abort of the ai package reaches the server', async (t) => {
  const model = await started(t, [[head(), role, text('Hel'), silence]])
  const stop = new AbortController()
  const slow = createOpenAICompatible({ name: 'fake', baseURL: model.url, fetch: resilientFetch() }).chatModel('fake-1')
  const result = streamText({ model: slow, prompt: 'hi', abortSignal: stop.signal })
  for await (const part of result.fullStream) if (part.type === 'text-delta') stop.abort()
  await model.untilAbandoned(1)
  assert.equal(model.requests.length, 1)
})

test('a tool call reaches the ai package complete', async (t) => {
  const model = await started(t, [
    [head(), role, callStart('c', 'bash', '{"comm'), reset],
    toolAnswer('bash', '{"command":"ls"}'),
  ])
  const { parameters } = TOOLS[0].function
  const bash = tool({ inputSchema: jsonSchema({ ...parameters, required: [...parameters.required] }) }) as Tool
  const result = streamText({ model: compatible(model.url), prompt: 'hi', tools: { bash }, maxRetries: 0 })
  const calls = await result.toolCalls
  assert.deepEqual(
    calls.map(({ input }) => input),
    [{ command: 'ls' }],
  )
})

for (const [what, broken] of [
  ['a reset', [reset]],
  ['a close', [fin]],
  ['a close after the headers', [head(), fin]],
  ['a clean early end', [head(), messageStart, lastChunk]],
  ['a server that never answers', [silence]],
  ['status 500', json(500, {})],
  ['status 429', json(429, {}, { 'retry-after-ms': '1' })],
  ['a malformed line', [head(), messageStart, frame('{oops'), silence]],
  ['a cut tool_use', [...toolMessage('bash', '{"command":"ls"}').slice(0, 5), reset]],
  ['a break after message_start', [head(), messageStart, reset]],
  ['an overloaded error', [head(), messageStart, errorEvent('overloaded_error', 'x'), lastChunk]],
  ['status 529', json(529, { type: 'error', error: { type: 'overloaded_error', message: 'x' } })],
  ['a stall', [head(), messageStart, textBlock(0), silence]],
] as const) {
  test(`the anthropic package does not see ${what} before content`, async (t) => {
    const model = await started(t, [broken, message('Hello', ' world')])
    const stream = anthropic(model.url).messages.stream({ model: 'm', max_tokens: 9, messages: [...MESSAGES] })
    const final = await stream.finalMessage()
    assert.deepEqual(
      final.content.map((block) => (block.type === 'text' ? block.text : block.type)),
      ['Hello world'],
    )
  })
}

test('the anthropic package sees a silent cut as an error', async (t) => {
  const model = await started(t, [
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), lastChunk],
    message('Howdy'),
  ])
  const stream = await anthropic(model.url).messages.create({
    model: 'm',
    max_tokens: 9,
    messages: [...MESSAGES],
    stream: true,
  })
  await assert.rejects(async () => {
    for await (const event of stream) assert.ok(event)
  }, /complete/)
})

test('a tool call reaches the openai package complete', async (t) => {
  const model = await started(t, [
    [head(), role, callStart('c', 'bash', '{"comm'), reset],
    toolAnswer('bash', '{"command":"ls"}'),
  ])
  const stream = openai(model.url).chat.completions.stream({ model: 'm', messages: [...MESSAGES], tools: [...TOOLS] })
  const final = await stream.finalChatCompletion()
  const [call] = final.choices[0]?.message.tool_calls ?? []
  assert.deepEqual(call?.type === 'function' ? call.function.arguments : undefined, '{"command":"ls"}')
})

const MESSAGE = { model: 'm', max_tokens: 9, messages: [...MESSAGES] }

test('the anthropic package gets an answer in one piece after faults', async (t) => {
  const content = [{ type: 'text', text: 'Hello' }]
  const whole = { id: 'm', type: 'message', role: 'assistant', model: 'm', content, stop_reason: 'end_turn', usage: {} }
  const model = await started(t, [[reset], json(503, {}), json(200, whole)])
  const got = await anthropic(model.url).messages.create(MESSAGE)
  assert.deepEqual(
    got.content.map((block) => (block.type === 'text' ? block.text : block.type)),
    ['Hello'],
  )
})

test('the anthropic package does not multiply the attempts already made', async (t) => {
  const model = await started(t, [json(529, { type: 'error', error: { type: 'overloaded_error', message: 'x' } })])
  await assert.rejects(anthropic(model.url).messages.create({ ...MESSAGE, stream: true }), { status: 529 })
  assert.equal(model.requests.length, 3)
})

test('a genuine 4xx reaches the anthropic package unchanged, after one attempt', async (t) => {
  const model = await started(t, [
    json(400, { type: 'error', error: { type: 'invalid_request_error', message: 'own' } }),
  ])
  await assert.rejects(anthropic(model.url).messages.create({ ...MESSAGE, stream: true }), {
    status: 400,
    message: /own/,
  })
  assert.equal(model.requests.length, 1)
})

test('an abort of the anthropic package reaches the server', async (t) => {
  const model = await started(t, [[head(), messageStart, textBlock(0), blockText(0, 'Hel'), silence]])
  const client = new Anthropic({ baseURL: model.url.replace(/\/v1$/, ''), apiKey: 'k', fetch: resilientFetch() })
  const stream = client.messages.stream(MESSAGE)
  stream.on('text', () => stream.abort())
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError)
  await model.untilAbandoned(1)
  assert.equal(model.requests.length, 1)
})

test('a tool call reaches the anthropic package complete', async (t) => {
  const model = await started(t, [
    [...toolMessage('bash', '{"command":"ls"}').slice(0, 5), reset],
    toolMessage('bash', '{"command":"ls"}'),
  ])
  const final = await anthropic(model.url).messages.stream(MESSAGE).finalMessage()
  assert.deepEqual(
    final.content.map((block) => (block.type === 'tool_use' ? block.input : block.type)),
    [{ command: 'ls' }],
  )
})
