/** Whatever JSON a server sends, the decoder reads it or throws a Fault, and never anything else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import fc from 'fast-check'
import { DIALECTS } from '../src/dialects/dialects.ts'
import { type AnswerDecoder, partCounter } from '../src/dialects/read-answer.ts'
import { PROFILES } from '../src/contract/profiles.ts'
import { judge } from '../src/dialects/proof.ts'
import { isObject } from '../src/lib/json.ts'
import { API_NAMES, type ApiName } from '../src/contract/names.ts'

const VALUES = [
  null,
  true,
  0,
  1,
  -1,
  '',
  'text',
  'stop',
  'tool_calls',
  'thinking',
  'text_delta',
  'tool_use',
  'content_block_start',
  'content_block_delta',
  'message_delta',
  'message_stop',
  'error',
  '{"a":1}',
] as const
const KEYS = [
  'choices',
  'delta',
  'message',
  'content',
  'index',
  'finish_reason',
  'tool_calls',
  'function',
  'function_call',
  'name',
  'arguments',
  'id',
  'reasoning',
  'reasoning_content',
  'thinking',
  'text',
  'type',
  'usage',
  'prompt_tokens',
  'content_block',
  'input',
  'partial_json',
  'stop_reason',
  'error',
] as const

/** JSON made of the keys and values of both protocols, in every wrong place. */
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 6, withCrossShrink: true },
    fc.constantFrom(...VALUES),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...KEYS), tie('value'), { maxKeys: 5 }),
  ),
}))

/** The right outline with anything in it, to reach the deep places too. */
const chat = fc.record({
  choices: fc.array(fc.record({ index: value, delta: value, message: value, finish_reason: value })),
})
const tool = value.map((call) => ({
  choices: [{ delta: { tool_calls: [call], content: [call], function_call: call } }],
}))
const event = fc.record({
  type: fc.constantFrom('message_start', 'content_block_start', 'content_block_delta', 'message_delta', 'message_stop'),
  index: value,
  message: value,
  content_block: value,
  delta: value,
  usage: value,
})
const pieces = fc
  .array(fc.oneof(value, fc.record({ type: fc.constant('thinking'), thinking: value })))
  .map((content) => ({ choices: [{ delta: { content } }] }))
const anything = fc.oneof(value, chat, tool, pieces, event)

const decoderFor = (api: ApiName): AnswerDecoder =>
  DIALECTS[api].decoder({ text: () => undefined, tool: () => undefined }, partCounter(), {
    everyJson: false,
    choices: 1,
    profile: PROFILES.generic,
  })

for (const api of API_NAMES) {
  test(`${api}: frames with any JSON are read or rejected with a fault, and can be judged`, () => {
    fc.assert(
      fc.property(fc.array(anything, { maxLength: 8 }), (frames) => {
        const decoder = decoderFor(api)
        for (const frame of frames) {
          try {
            decoder.frame({ data: JSON.stringify(frame) })
          } catch (thrown) {
            assert.ok(isFault(thrown), String((thrown as Error).stack))
          }
        }
        for (const part of decoder.answer.parts)
          assert.equal(typeof (part.kind === 'tool' ? part.tool : part.id), 'string')
        const verdict = judge(decoder.answer, DIALECTS[api], PROFILES.generic, new Map([['text', ['a']]]))
        assert.equal(typeof verdict.complete, 'boolean')
      }),
      { numRuns: 1_000 },
    )
  })

  test(`${api}: an answer in one piece with any JSON is read or rejected with a fault`, () => {
    fc.assert(
      fc.property(fc.oneof(value, chat, fc.record({ content: value, stop_reason: value, usage: value })), (body) => {
        if (!isObject(body)) return
        const decoder = decoderFor(api)
        try {
          decoder.whole(body)
        } catch (thrown) {
          assert.ok(isFault(thrown), String((thrown as Error).stack))
        }
        assert.ok(DIALECTS[api].framesOf(body).length > 0)
      }),
      { numRuns: 1_000 },
    )
  })
}
