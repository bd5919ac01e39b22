/** Anthropic's messages: the same rules, in its own events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AnswerRequest } from '../src/index.ts'
import { ask } from './collect.ts'
import {
  blockJson,
  blockStart,
  blockStop,
  blockText,
  blockThought,
  errorEvent,
  fin,
  frame,
  head,
  json,
  lastChunk,
  message,
  messageDelta,
  messageStart,
  messageStop,
  ping,
  type Play,
  rst,
  silence,
  startFakeModel,
  textBlock,
  toolMessage,
} from './fake-model.ts'

const GOOD = message('Hello', ' world')

async function play(plays: readonly Play[], request: Partial<AnswerRequest> = {}) {
  const model = await startFakeModel(plays)
  try {
    const got = await ask(model.url, { api: 'anthropic-messages', ...request })
    return { ...got, requests: model.requests }
  } finally {
    await model.close()
  }
}

test('a message comes as deltas, with usage', async () => {
  const got = await play([GOOD], { apiKey: 'sk-ant-key' })
  assert.equal(got.text, 'Hello world')
  assert.equal(got.done?.finish, 'stop')
  assert.equal(got.done?.proven, true)
  assert.deepEqual(got.done?.usage.inputTokens, { value: 12, quality: 'known' })
  assert.deepEqual(got.done?.usage.outputTokens, { value: 7, quality: 'known' })
  assert.equal(got.requests[0]?.path, '/v1/messages')
  assert.equal(got.requests[0]?.headers['x-api-key'], 'sk-ant-key')
  assert.equal(got.requests[0]?.headers['anthropic-version'], '2023-06-01')
})

test('a conversation in chat shape is sent as Anthropic wants it', async () => {
  const got = await play([GOOD], {
    messages: [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: 'list' },
      {
        role: 'assistant',
        content: 'ok',
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'bash', arguments: '{"command":"ls"}' } },
          { id: 'b', type: 'function', function: { name: 'now', arguments: '' } },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: 'README' },
      { role: 'tool', tool_call_id: 'b', content: 'noon' },
    ],
  })
  assert.equal(got.requests[0]?.body['system'], 'be brief')
  assert.deepEqual(got.requests[0]?.body['messages'], [
    { role: 'user', content: [{ type: 'text', text: 'list' }] },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'ok' },
        { type: 'tool_use', id: 'a', name: 'bash', input: { command: 'ls' } },
        { type: 'tool_use', id: 'b', name: 'now', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'a', content: 'README' },
        { type: 'tool_result', tool_use_id: 'b', content: 'noon' },
      ],
    },
  ])
})

test('thinking, text and a tool call are told apart', async () => {
  const got = await play([
    [
      head(),
      messageStart,
      blockStart(0, { type: 'thinking', thinking: '' }),
      blockThought(0, 'hm'),
      blockStop(0),
      ping,
      textBlock(1),
      blockText(1, 'Let me'),
      blockStop(1),
      blockStart(2, { type: 'tool_use', id: 'toolu_1', name: 'bash', input: {} }),
      blockJson(2, '{"command":'),
      blockJson(2, '"ls"}'),
      blockStop(2),
      frame({ type: 'something_new', index: 9 }, 'something_new'),
      messageDelta('tool_use'),
      messageStop,
      lastChunk,
    ],
  ])
  assert.equal(got.reasoning, 'hm')
  assert.equal(got.text, 'Let me')
  assert.deepEqual(
    got.calls.map(({ callId, arguments: args }) => [callId, args]),
    [['toolu_1', { command: 'ls' }]],
  )
  assert.equal(got.done?.finish, 'tool_calls')
})

for (const [what, broken, category] of [
  ['reset in its text', [head(), messageStart, textBlock(0), blockText(0, 'Hel'), rst], 'model_stream_interrupted'],
  [
    'closed in its thinking',
    [head(), messageStart, blockStart(0, { type: 'thinking' }), blockThought(0, 'h'), fin],
    'model_stream_interrupted',
  ],
  [
    'cleanly ended without message_stop',
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), lastChunk],
    'model_stream_incomplete',
  ],
  [
    'ended after its stop reason, without message_stop',
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), blockStop(0), messageDelta('end_turn'), lastChunk],
    'model_stream_incomplete',
  ],
  [
    'stopped without a stop reason',
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), blockStop(0), messageStop, lastChunk],
    'model_stream_incomplete',
  ],
  [
    'told overloaded inside the stream',
    [head(), messageStart, errorEvent('overloaded_error', 'Overloaded'), lastChunk],
    'model_overloaded',
  ],
  [
    'told api_error after text',
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), errorEvent('api_error', 'boom'), lastChunk],
    'model_server_error',
  ],
  [
    'told an error in the shape of OpenAI',
    [head(), frame({ error: { message: 'x', type: 'server_error' } }), lastChunk],
    'model_server_error',
  ],
  [
    'given status 529',
    json(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
    'model_overloaded',
  ],
  ['given nonsense', [head(), messageStart, frame('{oops'), silence], 'model_stream_interrupted'],
] as const) {
  test(`a message ${what} is ${category} and asked for again`, async () => {
    const got = await play([broken, GOOD])
    assert.equal(got.text, 'Hello world')
    assert.equal(got.failed.length, 1)
    assert.equal(got.failed[0]?.fault.category, category)
  })
}

test('a tool_use block that is cut is never run', async () => {
  const cut: Play = [
    head(),
    messageStart,
    blockStart(0, { type: 'tool_use', id: 't', name: 'bash', input: {} }),
    blockJson(0, '{"command":"rm'),
    blockStop(0),
    messageDelta('max_tokens'),
    messageStop,
    lastChunk,
  ]
  const got = await play([cut, toolMessage('bash', '{"command":"ls"}')])
  assert.equal(got.failed[0]?.fault.category, 'tool_call_truncated')
  assert.deepEqual(
    got.calls.map(({ arguments: args }) => args),
    [{ command: 'ls' }],
  )
})

test('a refusal is model_content_filtered', async () => {
  const got = await play([[head(), messageStart, messageDelta('refusal'), messageStop, lastChunk]])
  assert.equal(got.fault?.fault.category, 'model_content_filtered')
})

test('a prompt that is too long is told apart from other bad requests', async () => {
  const error = { type: 'invalid_request_error', message: 'prompt is too long: 213462 tokens > 200000 maximum' }
  const got = await play([json(400, { type: 'error', error })])
  assert.equal(got.fault?.fault.category, 'model_context_overflow')
})

test('a whole message although a stream was asked for is understood', async () => {
  const body = {
    type: 'message',
    content: [
      { type: 'text', text: 'Hello' },
      { type: 'tool_use', id: 't', name: 'bash', input: { command: 'ls' } },
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 3, output_tokens: 4 },
  }
  const got = await play([json(200, body)])
  assert.equal(got.text, 'Hello')
  assert.deepEqual(got.calls[0]?.arguments, { command: 'ls' })
})
