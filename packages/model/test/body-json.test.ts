import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import type { ChatMessage } from '../src/answer.ts'
import { anthropicBody } from '../src/dialects/anthropic-body.ts'
import { responsesBody } from '../src/dialects/responses-body.ts'
import { bodyJson } from '../src/json.ts'
import { PROFILES } from '../src/profiles.ts'

test('a body is written as JSON.stringify writes it, frozen messages too, the first time and again', () => {
  const messages = fc.array(
    fc.oneof(
      fc.object(),
      fc.object().map((value) => Object.freeze(value)),
      fc.jsonValue(),
    ),
  )
  const bodies = fc.record({
    model: fc.string(),
    messages,
    stream: fc.boolean(),
    tools: fc.option(fc.object(), { nil: undefined }),
  })
  fc.assert(
    fc.property(bodies, (body) => {
      for (let time = 0; time < 2; time += 1) assert.equal(bodyJson(body), JSON.stringify(body))
    }),
    { seed: 16 },
  )
})

test('a message that is not frozen may change between two requests', () => {
  const message = { role: 'user', content: 'one' }
  bodyJson({ messages: [message] })
  message.content = 'two'
  assert.equal(bodyJson({ messages: [message] }), '{"messages":[{"role":"user","content":"two"}]}')
})

const CONVERSATION: readonly ChatMessage[] = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'list' },
  {
    role: 'assistant',
    content: 'Two calls:',
    tool_calls: ['a', 'b'].map((id) => ({
      id,
      type: 'function',
      function: { name: 'bash', arguments: `{"id":"${id}"}` },
    })),
  },
  { role: 'tool', tool_call_id: 'a', content: 'one' },
  { role: 'tool', tool_call_id: 'b', content: 'two' },
]

test('every API gets the same body from frozen messages, and each part of it is made once', () => {
  const frozen = CONVERSATION.map((message) => Object.freeze({ ...message }))
  const request = { baseUrl: 'http://x/v1', model: 'm' }
  const bodies = [
    (messages: readonly ChatMessage[]) => anthropicBody({ ...request, messages })['messages'],
    (messages: readonly ChatMessage[]) => responsesBody({ ...request, messages }, PROFILES.generic)['input'],
  ]
  for (const bodyOf of bodies) {
    const [first, again] = [bodyOf(frozen), bodyOf(frozen)]
    assert.deepEqual(first, bodyOf(CONVERSATION))
    for (const name of ['messages', 'input'])
      assert.equal(bodyJson({ [name]: first }), JSON.stringify({ [name]: bodyOf(CONVERSATION) }))
    assert.deepEqual(
      partsIn(first).map(Object.isFrozen),
      partsIn(first).map(() => true),
    )
    for (const [index, part] of partsIn(first).entries()) assert.equal(part, partsIn(again)[index])
  }
})

/** The items of an input, or the blocks of the messages. */
const partsIn = (list: unknown): readonly unknown[] =>
  (list as readonly { content?: unknown }[]).flatMap((one) =>
    Array.isArray(one.content) ? (one.content as unknown[]) : [one],
  )
