/** A call that the token limit may have cut is never released, whichever API says so and however it says it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCutAtLimit } from '@breakfall/faults/internal'
import { type AnswerDecoder, partCounter } from '../src/dialects/read-answer.ts'
import { DIALECTS } from '../src/dialects/dialects.ts'
import type { JsonObject } from '../src/lib/json.ts'
import type { RelayApiName } from '../src/contract/names.ts'
import { PROFILES } from '../src/contract/profiles.ts'
import { argumentsOf, judge, type JudgeOptions } from '../src/dialects/proof.ts'
import { done, frame, text } from '../../../test/kit/openai-frames.ts'
import { cut, head, json as inOnePiece, lastChunk, type Play, stream } from '../../../test/kit/plays.ts'
import { callItem, responseFrames, wholeResponse } from '../../../test/kit/responses-frames.ts'
import { framesIn } from '../../../test/kit/sse.ts'
import { HOLDS } from '../src/index.ts'
import { relayed, type RelayedOptions } from './relayed.ts'

const decoderOf = (api: RelayApiName): AnswerDecoder =>
  DIALECTS[api].decoder({ text: () => undefined, tool: () => undefined }, partCounter(), {
    everyJson: false,
    choices: 1,
    profile: PROFILES.generic,
  })

/** The calls that are released, by name, or the category of the fault. */
function verdictOf(api: RelayApiName, decoder: AnswerDecoder, profile = PROFILES.generic, options: JudgeOptions = {}) {
  decoder.close?.()
  const verdict = judge(decoder.answer, DIALECTS[api], profile, new Map(), options)
  if (verdict.complete) return { finish: verdict.finish, calls: verdict.calls.map(({ tool }) => tool) }
  return { fault: verdict.fault.category, isCutAtLimit: isCutAtLimit(verdict.fault.report) }
}

function read(api: RelayApiName, frames: readonly JsonObject[]) {
  const decoder = decoderOf(api)
  for (const frame of frames) decoder.frame({ data: JSON.stringify(frame) })
  return verdictOf(api, decoder)
}

const CUT = { fault: 'tool_call_truncated', isCutAtLimit: true }

const chat = (finish_reason: string, ...calls: readonly JsonObject[]): readonly JsonObject[] => [
  ...calls.map((call) => ({ choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: null }] })),
  { choices: [{ index: 0, delta: {}, finish_reason }] },
]
const chatCall = (name: string, args: unknown, index = 0, id = `c${index}`): JsonObject => ({
  index,
  id,
  type: 'function',
  function: { name, arguments: args },
})

const toolUse = (index: number, name: string, json: string): readonly JsonObject[] => [
  { type: 'content_block_start', index, content_block: { type: 'tool_use', id: `t${index}`, name, input: {} } },
  { type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: json } },
  { type: 'content_block_stop', index },
]
const message = (stop_reason: string, ...blocks: readonly JsonObject[]): readonly JsonObject[] => [
  ...blocks,
  { type: 'message_delta', delta: { stop_reason }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
]

const functionCall = (name: string, args: string, status: string): JsonObject => ({
  type: 'function_call',
  id: `f_${name}`,
  call_id: `c_${name}`,
  name,
  arguments: args,
  status,
})
function response(reason: string, ...items: readonly JsonObject[]): readonly JsonObject[] {
  const added = items.flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item: { ...item, arguments: '', status: 'in_progress' } },
    { type: 'response.output_item.done', output_index, item },
  ])
  const status = { status: 'incomplete', incomplete_details: { reason }, output: items }
  return [...added, { type: 'response.incomplete', response: status }]
}

const gemini = (finishReason: string, ...calls: readonly JsonObject[]): readonly JsonObject[] => [
  { candidates: [{ content: { parts: calls.map((call) => ({ functionCall: call })) }, finishReason }] },
]

const UNWRITTEN: readonly (readonly [string, RelayApiName, readonly JsonObject[]])[] = [
  ['length', 'openai-chat', chat('length', chatCall('wipe', ''))],
  ["Gemini's word behind a chat route", 'openai-chat', chat('MAX_TOKENS', chatCall('wipe', ''))],
  ["Mistral's model_length", 'openai-chat', chat('model_length', chatCall('wipe', ''))],
  ['an empty object where the server read the arguments', 'openai-chat', chat('length', chatCall('wipe', {}))],
  ['max_tokens', 'anthropic-messages', message('max_tokens', ...toolUse(0, 'wipe', ''))],
  [
    'model_context_window_exceeded',
    'anthropic-messages',
    message('model_context_window_exceeded', ...toolUse(0, 'wipe', '')),
  ],
  ['max_output_tokens', 'openai-responses', response('max_output_tokens', functionCall('wipe', '', 'in_progress'))],
  ['an incomplete item', 'openai-responses', response('max_output_tokens', functionCall('wipe', '{}', 'incomplete'))],
  ['MAX_TOKENS', 'gemini', gemini('MAX_TOKENS', { name: 'wipe', args: {} })],
]

for (const [how, api, frames] of UNWRITTEN) {
  test(`${api}: a call whose arguments had not begun at the token limit (${how}) is not released`, () => {
    assert.deepEqual(read(api, frames), CUT)
  })
}

test('a message in one piece that the token limit ended does not release a call with empty input', () => {
  const decoder = decoderOf('anthropic-messages')
  decoder.whole({ content: [{ type: 'tool_use', id: 't', name: 'wipe', input: {} }], stop_reason: 'max_tokens' })
  assert.deepEqual(verdictOf('anthropic-messages', decoder), CUT)
})

test('a server that hides its token limit releases no call without arguments once it has counted as many tokens', () => {
  const frames = chat('tool_calls', chatCall('wipe', ''))
  const counted = [...frames, { choices: [], usage: { prompt_tokens: 5, completion_tokens: 100 } }]
  const released = { finish: 'tool_calls', calls: ['wipe'] }
  for (const [maxTokens, expected] of [
    [100, CUT],
    [101, released],
  ] as const) {
    const decoder = decoderOf('openai-chat')
    for (const frame of counted) decoder.frame({ data: JSON.stringify(frame) })
    assert.deepEqual(verdictOf('openai-chat', decoder, PROFILES.ollama, { maxTokens }), expected)
  }
})

/** An answer that says that it is complete, of a server that hides its token limit, and that counted 7 tokens. */
const HIDDEN: readonly (readonly [string, RelayedOptions, string, (args: string) => Play])[] = [
  [
    'a stream of Responses',
    { api: 'openai-responses', profile: 'llama-cpp' },
    'max_output_tokens',
    (args) => stream(...responseFrames([callItem('now', args)])),
  ],
  [
    'a response in one piece',
    { api: 'openai-responses', profile: 'ollama', body: { stream: false } },
    'max_output_tokens',
    (args) => inOnePiece(200, wholeResponse([callItem('now', args)])),
  ],
  [
    'a chat stream',
    { api: 'openai-chat', profile: 'ollama' },
    'max_tokens',
    (args) => [
      head(),
      ...[...chat('tool_calls', chatCall('now', args)), { choices: [], usage: { completion_tokens: 7 } }].map(frame),
      done,
      lastChunk,
    ],
  ],
]

for (const [what, options, limit, answer] of HIDDEN) {
  test(`a client gets no call without arguments from a server that hides its token limit: ${what}`, async () => {
    const play = (tokens: number) =>
      relayed([answer(''), answer('{"a":1}')], { ...options, body: { ...options.body, [limit]: tokens } })
    assert.deepEqual([(await play(7)).requests.length, (await play(8)).requests.length], [2, 1])
    assert.match((await play(7)).body, /\{\\"a\\":1\}/)
  })
}

const WRITTEN: readonly (readonly [RelayApiName, readonly JsonObject[]])[] = [
  ['openai-chat', chat('length', chatCall('now', ''), chatCall('read', '{"a":1}', 1))],
  ['anthropic-messages', message('max_tokens', ...toolUse(0, 'now', ''), ...toolUse(1, 'read', '{"a":1}'))],
  [
    'openai-responses',
    response('max_output_tokens', functionCall('now', '', 'completed'), functionCall('read', '{"a":1}', 'completed')),
  ],
  ['gemini', gemini('MAX_TOKENS', { name: 'now' }, { name: 'read', args: { a: 1 } })],
]

for (const [api, frames] of WRITTEN) {
  test(`${api}: calls that were whole when the token limit came are released`, () => {
    assert.deepEqual(read(api, frames), { finish: 'length', calls: ['now', 'read'] })
  })
}

test('a call without arguments in an answer that the model itself ended is released', () => {
  assert.deepEqual(read('openai-chat', chat('tool_calls', chatCall('now', ''))), {
    finish: 'tool_calls',
    calls: ['now'],
  })
  assert.deepEqual(read('anthropic-messages', message('tool_use', ...toolUse(0, 'now', ''))).calls, ['now'])
  assert.deepEqual(read('gemini', gemini('STOP', { name: 'now' })).calls, ['now'])
})

// ---- which call a piece belongs to ----

/** A call without an id, as some servers send it. */
const idless = (name: string | undefined, args: string, index: number | undefined = 0): JsonObject => ({
  ...(index === undefined ? {} : { index }),
  id: '',
  type: 'function',
  function: { name, arguments: args },
})

function callsIn(calls: readonly JsonObject[]) {
  const decoder = decoderOf('openai-chat')
  for (const frame of chat('tool_calls', ...calls)) decoder.frame({ data: JSON.stringify(frame) })
  const verdict = judge(decoder.answer, DIALECTS['openai-chat'], PROFILES.generic, new Map())
  if (!verdict.complete) return verdict.fault.category
  return verdict.calls.map((part) => `${part.tool} ${JSON.stringify(argumentsOf(part))}`)
}

const IDLESS: readonly (readonly [string, readonly JsonObject[], readonly string[] | string])[] = [
  [
    'whole calls to one tool at one index',
    [idless('read', '{"a":1}'), idless('read', '{"a":2}')],
    ['read {"a":1}', 'read {"a":2}'],
  ],
  [
    'whole calls without an index',
    [idless('read', '{"a":1}', undefined), idless('read', '{"a":2}', undefined)],
    ['read {"a":1}', 'read {"a":2}'],
  ],
  [
    'calls in pieces',
    [
      idless('read', ''),
      idless(undefined, '{"a"'),
      idless(undefined, ':1}'),
      idless('read', ''),
      idless('', '{"a":2}'),
    ],
    ['read {"a":1}', 'read {"a":2}'],
  ],
  [
    'a second call to another tool, without arguments',
    [idless('read', '{"a":1}'), idless('now', '')],
    ['read {"a":1}', 'now {}'],
  ],
  ['a first call without arguments', [idless('now', ''), idless('read', '{"a":1}')], ['now {}', 'read {"a":1}']],
  [
    'one call whose name is repeated with every piece',
    [idless('read', ''), idless('read', '{"a":'), idless('read', '{"b":1}'), idless('read', '}')],
    ['read {"a":{"b":1}}'],
  ],
  ['a name repeated after whole arguments', [idless('read', '{"a":1}'), idless('read', '')], 'tool_call_truncated'],
  ['a cut call and another', [idless('read', '{"a":'), idless('now', '{}')], 'tool_call_truncated'],
]

for (const [what, calls, expected] of IDLESS) {
  test(`calls without ids are told apart or not run: ${what}`, () => {
    assert.deepEqual(callsIn(calls), expected)
  })
}

for (const hold of HOLDS) {
  test(`hold ${hold}: calls without ids reach a client as it would get them without the relay, also after a heal`, async () => {
    for (const [what, calls, expected] of IDLESS) {
      if (typeof expected === 'string') continue
      const said = [text('I will '), text('look.')]
      const rest = [...chat('tool_calls', ...calls).map(frame), done]
      const plain = await relayed([stream(...said, ...rest)], { hold })
      assert.equal(plain.body, [...said, ...rest].join(''), what)
      const healed = await relayed([cut(...said.slice(0, 1)), stream(...said, ...rest)], { hold })
      const choicesIn = (body: string): unknown[] => framesIn(body).frames.map(({ json }) => json?.choices)
      assert.deepEqual(choicesIn(healed.body), choicesIn(plain.body), what)
    }
  })
}

test('calls of an answer in one piece are streamed as calls of their own, whatever index the server gave them', async () => {
  const tool_calls = [idless('now', '{"a":1}'), idless('now', '{"a":2}')]
  const whole = { choices: [{ index: 0, message: { role: 'assistant', tool_calls }, finish_reason: 'tool_calls' }] }
  assert.deepEqual((await relayed([inOnePiece(200, whole)])).calls, ['{"a":1}', '{"a":2}'])
})

/** How many elements the array methods that search looked at. */
function searched(work: () => void): number {
  let looks = 0
  const methods = ['find', 'findLast', 'findIndex', 'findLastIndex', 'filter', 'some', 'every'] as const
  const originals = methods.map((name) => Object.getOwnPropertyDescriptor(Array.prototype, name))
  for (const name of methods) {
    const original = Array.prototype[name] as (this: unknown[], test: (...given: unknown[]) => unknown) => unknown
    Object.defineProperty(Array.prototype, name, {
      configurable: true,
      writable: true,
      value(this: unknown[], test: (...given: unknown[]) => unknown): unknown {
        return original.call(this, (...given: unknown[]) => {
          looks += 1
          return test(...given)
        })
      },
    })
  }
  try {
    work()
  } finally {
    for (const [at, name] of methods.entries())
      Object.defineProperty(Array.prototype, name, originals[at] as PropertyDescriptor)
  }
  return looks
}

const MANY: readonly (readonly [RelayApiName, (count: number) => readonly JsonObject[]])[] = [
  [
    'openai-chat',
    (count) => chat('tool_calls', ...Array.from({ length: count }, (_, index) => chatCall('now', '{}', index))),
  ],
  [
    'openai-responses',
    (count) =>
      response(
        'max_output_tokens',
        ...Array.from({ length: count }, (_, index) => functionCall(`now${index}`, '{}', 'completed')),
      ),
  ],
]

for (const [api, frames] of MANY) {
  test(`${api}: reading ten times as many calls is ten times the work`, () => {
    const [few, many] = [200, 2_000].map((count) => {
      const all = frames(count).map((frame) => ({ data: JSON.stringify(frame) }))
      const decoder = decoderOf(api)
      return searched(() => {
        for (const frame of all) decoder.frame(frame)
        assert.equal(verdictOf(api, decoder).calls?.length, count)
      })
    })
    assert.ok((many ?? 0) < 15 * (few ?? 0) + 100, `${few} looks for 200 calls, ${many} for 2000`)
  })
}
