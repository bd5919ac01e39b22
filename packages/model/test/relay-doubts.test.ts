/** Answers that are complete and yet probably not meant: asked for again once if that is safe, then passed on and named. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RelayApiName } from '../src/index.ts'
import * as anthropic from '../../../test/kit/anthropic-frames.ts'
import * as gemini from '../../../test/kit/gemini-frames.ts'
import * as chat from '../../../test/kit/openai-frames.ts'
import { head, json, lastChunk, type Play, reset } from '../../../test/kit/plays.ts'
import { messageItem, reasoningItem, responding } from '../../../test/kit/responses-frames.ts'
import { type Relayed, relayed, type RelayedOptions } from './relayed.ts'

type Streamed = Exclude<RelayApiName, 'bedrock-messages' | 'ollama'>
type Says = { readonly thoughts?: string; readonly text?: string }

/** What each API sends for the same answer. */
const SAYS: Readonly<Record<Streamed, (says: Says) => Play>> = {
  'openai-chat': ({ thoughts, text }) => [
    head(),
    chat.role,
    ...(thoughts === undefined ? [] : [chat.thought(thoughts)]),
    ...(text === undefined ? [] : [chat.text(text)]),
    chat.finish(),
    chat.done,
    lastChunk,
  ],
  'anthropic-messages': ({ thoughts, text }) => [
    head(),
    ...anthropic.messageFrames(
      ...(thoughts === undefined
        ? []
        : [
            [
              anthropic.blockStart(0, { type: 'thinking', thinking: '' }),
              anthropic.blockThought(0, thoughts),
              anthropic.blockStop(0),
            ],
          ]),
      ...(text === undefined ? [] : [anthropic.textFrames(thoughts === undefined ? 0 : 1, text)]),
    ),
    lastChunk,
  ],
  'openai-responses': ({ thoughts, text }) =>
    responding([
      ...(thoughts === undefined ? [] : [reasoningItem([thoughts])]),
      ...(text === undefined ? [] : [messageItem([text])]),
    ]),
  gemini: ({ thoughts, text }) => [
    head(),
    ...(thoughts === undefined ? [] : [gemini.chunkOf([{ text: thoughts, thought: true }])]),
    ...(text === undefined ? [] : [gemini.says(text)]),
    gemini.stops(),
    lastChunk,
  ],
}
const APIS = Object.keys(SAYS) as readonly Streamed[]
const EMPTY: readonly (readonly [says: Says, reason: string])[] = [
  [{}, 'empty_answer'],
  [{ thoughts: 'Hm.' }, 'thoughts_only'],
  [{ text: ' \n' }, 'empty_answer'],
  [{ thoughts: 'Hm.', text: '\n\n' }, 'thoughts_only'],
]

const ask = (api: RelayApiName, plays: readonly Play[], options: RelayedOptions = {}): Promise<Relayed> =>
  relayed(plays, { api, hold: 'answer', ...options })

for (const api of APIS) {
  const says = SAYS[api]
  test(`${api}: an answer without text or call is asked for again once; one with text comes alone`, async () => {
    for (const [empty, reason] of EMPTY) {
      const { text, requests, headers, outcome, events } = await ask(api, [says(empty), says({ text: 'Hello' })])
      assert.deepEqual(
        [text, requests.length, headers['x-breakfall-doubt']],
        ['Hello', 2, undefined],
        JSON.stringify(empty),
      )
      assert.deepEqual(
        [outcome.ledger[0]?.fault?.category, outcome.ledger[0]?.fault?.reason],
        ['model_stream_incomplete', reason],
      )
      assert.ok(events.every(({ type }) => type !== 'doubt'))
    }
  })
  test(`${api}: a second answer like it is the answer, and a header says so`, async () => {
    for (const [empty, reason] of EMPTY) {
      const { requests, headers, status, isEnded, events } = await ask(api, [says(empty), says(empty)])
      assert.deepEqual([requests.length, status, isEnded, headers['x-breakfall-doubt']], [2, 200, true, reason])
      assert.deepEqual(
        events.find(({ type }) => type === 'doubt'),
        { type: 'doubt', attempt: 2, reason },
      )
    }
  })
  test(`${api}: nothing is asked for again once thoughts went out, or if empty answers are accepted`, async () => {
    const accepted = await ask(api, [says({})], { empty: 'accept' })
    assert.deepEqual([accepted.requests.length, accepted.headers['x-breakfall-doubt']], [1, 'empty_answer'])
    const sent = await relayed([says({ thoughts: 'Hm.' })], { api, hold: 'none' })
    assert.deepEqual([sent.requests.length, sent.events.some(({ type }) => type === 'doubt')], [1, true])
  })
  test(`${api}: an answer that may be meant to be empty is accepted`, async () => {
    const config = api === 'gemini' ? { generationConfig: { stopSequences: ['x'] } } : { stop: ['x'] }
    const turns = {
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'b' },
      ],
    }
    for (const body of [config, turns]) {
      const { requests, headers } = await ask(api, [says({})], { body })
      assert.deepEqual([requests.length, headers['x-breakfall-doubt']], [1, undefined])
    }
  })
  test(`${api}: a call that came as text is asked for again once while it is held, then passed on unchanged and named`, async () => {
    const leak = '<tool_call>\n{"name": "bash", "arguments": {"command": "."}}\n</tool_call>'
    const asked = await ask(api, [says({ text: leak }), says({ text: 'Hello' })])
    assert.deepEqual([asked.text, asked.requests.length], ['Hello', 2])
    assert.equal(asked.outcome.ledger[0]?.fault?.reason, 'leaked_call')
    const twice = await ask(api, [says({ text: leak }), says({ text: leak })])
    assert.deepEqual(
      [twice.text, twice.requests.length, twice.headers['x-breakfall-doubt']],
      [leak, 2, 'leaked_call bash'],
    )
    const sent = await relayed([says({ text: leak })], { api, hold: 'tools' })
    assert.deepEqual([sent.text, sent.requests.length], [leak, 1])
    assert.deepEqual(
      sent.events.find(({ type }) => type === 'doubt'),
      { type: 'doubt', attempt: 1, reason: 'leaked_call', name: 'bash' },
    )
    if (api !== 'gemini')
      assert.ok(sent.comments.some((comment) => comment.includes('breakfall doubt leaked_call bash')))
  })
  test(`${api}: such a text is no call where the request is about such texts, wants JSON, or offers no such tool`, async () => {
    const leak = '<tool_call>\n{"name": "bash", "arguments": {"command": "."}}\n</tool_call>'
    for (const body of [
      { messages: [{ role: 'user', content: 'What does <tool_call> mean?' }] },
      { system: 'Answer with <tool_call>.' },
      { tool_choice: 'none' },
      { tools: [] },
      { response_format: { type: 'json_schema' } },
      { text: { format: { type: 'json_schema' } } },
      { generationConfig: { responseMimeType: 'application/json' } },
    ]) {
      const { text, requests, headers } = await ask(api, [says({ text: leak })], { body })
      assert.deepEqual(
        [text, requests.length, headers['x-breakfall-doubt']],
        [leak, 1, undefined],
        JSON.stringify(body),
      )
    }
  })
}

test('what is not compared is not empty: pictures, citations, tools of the provider, unknown blocks, a stop sequence, a pause', async () => {
  const message = (...events: readonly string[]): Play => [head(), anthropic.messageStart, ...events, lastChunk]
  const block = (type: string, more: object = {}): string[] => [
    anthropic.blockStart(0, { type, ...more }),
    anthropic.blockStop(0),
  ]
  const end = [anthropic.messageDelta(), anthropic.messageStop]
  const answers: readonly (readonly [RelayApiName, Play])[] = [
    ['anthropic-messages', message(...block('server_tool_use', { name: 'web_search' }), ...end)],
    ['anthropic-messages', message(...block('compaction', { content: 'x' }), ...end)],
    ['anthropic-messages', message(...block('new_thing'), ...end)],
    ['anthropic-messages', message(anthropic.messageDelta('stop_sequence'), anthropic.messageStop)],
    ['anthropic-messages', message(anthropic.messageDelta('pause_turn'), anthropic.messageStop)],
    ['anthropic-messages', message(anthropic.messageDelta('max_tokens'), anthropic.messageStop)],
    ['openai-chat', [head(), chat.choice({ audio: { data: 'UklG' } }), chat.finish(), chat.done, lastChunk]],
    ['openai-chat', [head(), chat.choice({ images: [{ url: 'x' }] }), chat.finish(), chat.done, lastChunk]],
    ['openai-chat', [head(), chat.choice({ content: [{ type: 'reference' }] }), chat.finish(), chat.done, lastChunk]],
    ['openai-chat', [head(), chat.finish('length'), chat.done, lastChunk]],
    ['gemini', [head(), gemini.chunkOf([{ inlineData: { data: 'iVBO' } }]), gemini.stops(), lastChunk]],
    ['gemini', [head(), gemini.chunkOf([{ executableCode: { code: '1' } }]), gemini.stops(), lastChunk]],
    ['gemini', [head(), gemini.chunkOf([], { finishReason: 'MAX_TOKENS' }), lastChunk]],
    ['openai-responses', responding([], { more: { end_turn: false } })],
  ]
  for (const [api, play] of answers) {
    const { requests, status, headers } = await ask(api, [play])
    assert.deepEqual([requests.length, status, headers['x-breakfall-doubt']], [1, 200, undefined], JSON.stringify(play))
  }
})

test('thoughts that are only signed or redacted are thoughts', async () => {
  const redacted = [
    head(),
    ...anthropic.messageFrames([
      anthropic.blockStart(0, { type: 'redacted_thinking', data: 'x' }),
      anthropic.blockStop(0),
    ]),
    lastChunk,
  ]
  const { headers } = await ask('anthropic-messages', [redacted])
  assert.equal(headers['x-breakfall-doubt'], 'thoughts_only')
})

test('with no attempt left, an answer in doubt is the answer', async () => {
  const leak = '{"name": "bash", "arguments": {"command": "ls"}}'
  for (const last of [{}, { text: leak }] satisfies readonly Says[]) {
    const { status, text, requests } = await ask('openai-chat', [[reset], [reset], SAYS['openai-chat'](last)], {
      policy: { attemptsMax: 3 },
    })
    assert.deepEqual([status, text, requests.length], [200, last.text ?? '', 3])
  }
})

test('an answer in one piece is judged the same', async () => {
  const of = (content: string): Play =>
    json(200, { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }] })
  const asked = await relayed([of(''), of('Hello')], { body: { stream: false } })
  assert.match(asked.body, /Hello/)
  const twice = await relayed([of(''), of('')], { body: { stream: false } })
  assert.deepEqual([twice.requests.length, twice.headers['x-breakfall-doubt']], [2, 'empty_answer'])
})
