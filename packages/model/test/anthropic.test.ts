/** Anthropic's messages: the same rules with its own events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AnswerOptions, AnswerRequest } from '../src/index.ts'
import { OUTPUT_LIMITS } from '../src/attempt/output-limit.ts'
import { play as playScript } from './play.ts'
import {
  blockJson,
  blockStart,
  blockStop,
  blockText,
  blockThought,
  errorEvent,
  event,
  message,
  messageDelta,
  messageStart,
  messageStop,
  ping,
  textBlock,
  toolMessage,
} from '../../../test/kit/anthropic-frames.ts'
import { frame } from '../../../test/kit/openai-frames.ts'
import { fin, forever, head, json, lastChunk, type Play, reset, silence } from '../../../test/kit/plays.ts'

const GOOD = message('Hello', ' world')

const play = (plays: readonly Play[], request: Partial<AnswerRequest> = {}, options: AnswerOptions = {}) =>
  playScript(plays, { api: 'anthropic-messages', ...request }, options)

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

test('a conversation in chat format is sent in the format of Anthropic', async () => {
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

test('thinking, text and a tool call are separate parts', async () => {
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
      event('something_new', { index: 9 }),
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
  ['reset in its text', [head(), messageStart, textBlock(0), blockText(0, 'Hel'), reset], 'model_stream_interrupted'],
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
    'with an overloaded error inside the stream',
    [head(), messageStart, errorEvent('overloaded_error', 'Overloaded'), lastChunk],
    'model_overloaded',
  ],
  [
    'with an api_error after text',
    [head(), messageStart, textBlock(0), blockText(0, 'Hel'), errorEvent('api_error', 'boom'), lastChunk],
    'model_server_error',
  ],
  [
    'with an error in the format of OpenAI',
    [head(), frame({ error: { message: 'x', type: 'server_error' } }), lastChunk],
    'model_server_error',
  ],
  [
    'refused with status 529',
    json(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
    'model_overloaded',
  ],
  ['given nonsense', [head(), messageStart, frame('{oops'), silence], 'model_stream_interrupted'],
  ['reset before its headers', [reset], 'model_stream_interrupted'],
  [
    'reset after a complete tool_use and before its end',
    [...toolMessage('bash', '{"command":"rm"}').slice(0, -3), reset],
    'model_stream_interrupted',
  ],
  [
    'with a tool_use by name only',
    [
      head(),
      messageStart,
      blockStart(0, { type: 'tool_use', id: 't', name: 'bash', input: {} }),
      blockStop(0),
      messageDelta('tool_use'),
      messageStop,
      lastChunk,
    ],
    'tool_call_truncated',
  ],
  [
    'refused with a rate limit',
    json(429, { type: 'error', error: { type: 'rate_limit_error', message: 'slow' } }),
    'model_rate_limited',
  ],
] as const) {
  test(`a message ${what} is ${category} and is retried`, async () => {
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

test('a prompt that is too long is distinguished from other bad requests', async () => {
  const error = { type: 'invalid_request_error', message: 'prompt is too long: 213462 tokens > 200000 maximum' }
  const got = await play([json(400, { type: 'error', error })])
  assert.equal(got.fault?.fault.category, 'model_context_overflow')
})

test('a message in one piece is accepted although a stream was asked for', async () => {
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

for (const [what, acts, category] of [
  ['a bad request', [head(), messageStart, errorEvent('invalid_request_error', 'no')], 'model_bad_request'],
  ['a refused key', [head(), messageStart, errorEvent('authentication_error', 'no')], 'model_auth_failed'],
  ['a spent credit', [head(), messageStart, errorEvent('billing_error', 'no')], 'model_quota_exhausted'],
] as const) {
  test(`${what} inside the stream is ${category} and is not retried`, async () => {
    const got = await play([[...acts, lastChunk], GOOD])
    assert.equal(got.fault?.fault.category, category)
    assert.equal(got.requests.length, 1)
  })
}

test('the liveness timeout ends silence, and the progress timeout ends pings without output', async () => {
  const begun: Play = [head(), messageStart, textBlock(0), blockText(0, 'Hel')]
  const silent = await play([[...begun, silence], GOOD], {}, { policy: { livenessMs: 80 } })
  assert.deepEqual([silent.text, silent.failed[0]?.fault.reason], ['Hello world', 'liveness'])
  const pinging = [...begun, forever(ping, 15)]
  const stuck = await play([pinging, GOOD], {}, { policy: { livenessMs: 5_000, progressMs: 150 } })
  assert.deepEqual([stuck.text, stuck.failed[0]?.fault.reason], ['Hello world', 'progress'])
})

test('a cancel in the middle of a message ends it', async () => {
  const stop = new AbortController()
  const cancel = (): void => stop.abort()
  const begun: Play = [head(), messageStart, textBlock(0), blockText(0, 'Hel'), cancel, silence]
  const got = await play([begun, GOOD], {}, { signal: stop.signal })
  assert.deepEqual([got.fault?.fault.category, got.requests.length], ['cancelled', 1])
})

const TURNS = [
  { role: 'system', content: 'be brief' },
  { role: 'user', content: 'list' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'function', function: { name: 'now', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'a', content: 'noon' },
] as const
const TOOLS = ['one', 'two'].map((name) => ({ type: 'function', function: { name } }) as const)

test('a conversation that continues is marked for the cache: its tools, its instructions, its end and where the last request ended', async () => {
  const asked = { messages: TURNS, tools: TOOLS }
  const [marked, plain] = await Promise.all([play([GOOD], { ...asked, promptCache: true }), play([GOOD], asked)])
  const mark = '"cache_control":{"type":"ephemeral"}'
  const text = marked.requests[0]?.text ?? ''
  assert.equal(text.split(mark).length - 1, 4)
  const { tools, system, messages } = marked.requests[0]?.body ?? {}
  assert.match(JSON.stringify(tools), /"two".*cache_control/)
  assert.match(JSON.stringify(system), /be brief.*cache_control/)
  assert.match(JSON.stringify(messages), /"list","cache_control".*"noon","cache_control"/)
  assert.equal(plain.requests[0]?.text.includes('cache_control'), false)
})

test('a model that allows less output than others is asked for what it allows', async () => {
  const limits = async (model: string) => (await play([GOOD], { model })).requests[0]?.body['max_tokens'] as unknown
  assert.equal(await limits('claude-sonnet-5'), 30_000)
  assert.equal(await limits('anthropic/claude-3.5-sonnet'), 8_192)
  assert.equal(await limits('claude-3-haiku-20240307'), 4_096)
})

test('a server that refuses the output limit that Breakfall chose gets the one it names, and a limit that was set stays', async () => {
  for (const { pattern, seen } of OUTPUT_LIMITS) assert.match(seen, pattern)
  const [seen] = OUTPUT_LIMITS.map((row) => row.seen)
  const refuse = json(400, { type: 'error', error: { type: 'invalid_request_error', message: seen } })
  const got = await play([refuse, GOOD])
  assert.equal(got.text, 'Hello world')
  assert.deepEqual(
    got.requests.map(({ body }) => body['max_tokens'] as unknown),
    [30_000, 8_192],
  )
  assert.equal(got.failed.length, 0)
  const again = await play([refuse, refuse, GOOD])
  assert.deepEqual([again.fault?.fault.category, again.requests.length], ['model_bad_request', 2])
  const set = await play([refuse, GOOD], { maxTokens: 20_000 })
  assert.deepEqual([set.fault?.fault.category, set.requests.length], ['model_bad_request', 1])
})
