/** What servers count, and what becomes of it over several attempts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DIALECTS } from '../src/dialects/dialects.ts'
import { partCounter } from '../src/dialects/read-answer.ts'
import type { RelayApiName } from '../src/contract/names.ts'
import { PROFILES } from '../src/contract/profiles.ts'
import { addUsage, usageOf } from '../src/attempt/usage.ts'

function usageIn(api: RelayApiName, ...frames: readonly object[]) {
  const handler = { text: () => undefined, tool: () => undefined }
  const options = { everyJson: false, choices: 1, profile: PROFILES.generic }
  const decoder = DIALECTS[api].decoder(handler, partCounter(), options)
  for (const frame of frames) decoder.frame({ data: JSON.stringify(frame) })
  decoder.close?.()
  return usageOf(decoder.answer)
}

const known = (value: number) => ({ value, quality: 'known' }) as const
const stopped = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }

const CACHED: readonly (readonly [string, RelayApiName, readonly object[], object])[] = [
  [
    'Anthropic, whose input count leaves the cache out',
    'anthropic-messages',
    [
      {
        type: 'message_start',
        message: {
          usage: { input_tokens: 4, cache_read_input_tokens: 90, cache_creation_input_tokens: 6, output_tokens: 1 },
        },
      },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
    ],
    { cacheReadTokens: 90, cacheWriteTokens: 6 },
  ],
  [
    'OpenAI',
    'openai-chat',
    [
      stopped,
      {
        choices: [],
        usage: { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 90 } },
      },
    ],
    { cacheReadTokens: 90 },
  ],
  [
    'DeepSeek',
    'openai-chat',
    [stopped, { choices: [], usage: { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 90 } }],
    { cacheReadTokens: 90 },
  ],
  [
    'Responses',
    'openai-responses',
    [
      {
        type: 'response.completed',
        response: {
          status: 'completed',
          output: [],
          usage: { input_tokens: 100, output_tokens: 5, input_tokens_details: { cached_tokens: 90 } },
        },
      },
    ],
    { cacheReadTokens: 90 },
  ],
  [
    'Gemini',
    'gemini',
    [
      {
        candidates: [{ content: { parts: [] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 5, cachedContentTokenCount: 90 },
      },
    ],
    { cacheReadTokens: 90 },
  ],
]

for (const [who, api, frames, cache] of CACHED) {
  test(`what a cache read is part of the input: ${who}`, () => {
    assert.deepEqual(usageIn(api, ...frames), { inputTokens: known(100), outputTokens: known(5), ...cache })
  })
}

test('a server that says nothing about a cache adds nothing to what others said', () => {
  const silent = { inputTokens: known(10), outputTokens: known(1) }
  const cached = { ...silent, cacheReadTokens: 8 }
  assert.deepEqual(addUsage(cached, silent).cacheReadTokens, 8)
  assert.deepEqual(addUsage(cached, cached).cacheReadTokens, 16)
  assert.deepEqual(addUsage(silent, silent), { inputTokens: known(20), outputTokens: known(2) })
})

test('the output of an answer that broke off is never known: servers count it before it is written', () => {
  const usage = { input_tokens: 12, output_tokens: 1 }
  const begun = [
    { type: 'message_start', message: { usage } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'x'.repeat(40) } },
  ]
  assert.deepEqual(usageIn('anthropic-messages', ...begun).outputTokens, { value: 10, quality: 'estimated' })
  const [start] = begun
  assert.deepEqual(usageIn('anthropic-messages', start ?? {}).outputTokens, { value: 1, quality: 'estimated' })
})
