import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import type { ChatMessage } from '../src/contract/answer.ts'
import { anthropicBody } from '../src/dialects/anthropic-body.ts'
import { openAiBody } from '../src/dialects/openai-body.ts'
import { responsesBody } from '../src/dialects/responses-body.ts'
import { bodyBytes } from '../src/lib/body-bytes.ts'
import { PROFILES } from '../src/contract/profiles.ts'

const REQUEST = { baseUrl: 'http://x/v1', model: 'm' }
const BODIES = {
  chat: (messages: readonly ChatMessage[]) => openAiBody({ ...REQUEST, messages }, PROFILES.generic),
  responses: (messages: readonly ChatMessage[]) => responsesBody({ ...REQUEST, messages }, PROFILES.generic),
  anthropic: (messages: readonly ChatMessage[]) => anthropicBody({ ...REQUEST, messages }),
}
const textOf = (body: object): string => Buffer.concat(bodyBytes(body)).toString()

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
      for (let time = 0; time < 2; time += 1) assert.equal(textOf(body), JSON.stringify(body))
    }),
    { seed: 16 },
  )
})

test('a long conversation sends the same chunks in every step, in every API, and only its end is written again', () => {
  for (const [name, bodyOf] of Object.entries(BODIES)) {
    const messages: ChatMessage[] = []
    let before: readonly Buffer[] = []
    for (let step = 0; step < 20; step += 1) {
      messages.push(...stepOf(step).map((message) => Object.freeze(message)))
      const chunks = bodyBytes(bodyOf([{ role: 'system', content: 'Be brief.' }, ...messages]))
      const kept = before.slice(1, -1) // the first has the system prompt, the last was not full
      assert.deepEqual(
        chunks.slice(1, 1 + kept.length).map((chunk, index) => chunk === kept[index]),
        kept.map(() => true),
        name,
      )
      const copies = messages.map((message) => ({ ...message }))
      const plain = bodyOf([{ role: 'system', content: 'Be brief.' }, ...copies])
      assert.equal(Buffer.concat(chunks).toString(), JSON.stringify(plain), name)
      assert.ok((chunks.at(-1)?.length ?? 0) < 128 * 1024, name)
      before = chunks
    }
    assert.ok(before.length > 4, `${name}: ${before.length} chunks`)
  }
})

test('a message that became a note is sent as the note, and the rest of its chunk with it', () => {
  const long = 'x'.repeat(30_000)
  const messages = ['a', 'b', 'c', 'd'].map((id) => Object.freeze({ role: 'user', content: id + long }))
  textOf({ messages })
  const noted = messages.map((message, index) =>
    index === 1 ? Object.freeze({ role: 'user', content: 'b' }) : message,
  )
  for (const list of [noted, messages, messages.slice(1), messages.slice(0, 2), []])
    assert.equal(textOf({ messages: list }), JSON.stringify({ messages: list }))
})

test('a message that is not frozen may change between two requests', () => {
  const message = { role: 'user', content: 'one' }
  textOf({ messages: [message] })
  message.content = 'two'
  assert.equal(textOf({ messages: [message] }), '{"messages":[{"role":"user","content":"two"}]}')
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
  const bodies = [
    (messages: readonly ChatMessage[]) => BODIES.anthropic(messages)['messages'],
    (messages: readonly ChatMessage[]) => BODIES.responses(messages)['input'],
  ]
  for (const bodyOf of bodies) {
    const [first, again] = [bodyOf(frozen), bodyOf(frozen)]
    assert.deepEqual(first, bodyOf(CONVERSATION))
    for (const name of ['messages', 'input'])
      assert.equal(textOf({ [name]: first }), JSON.stringify({ [name]: bodyOf(CONVERSATION) }))
    assert.deepEqual(
      partsIn(first).map(Object.isFrozen),
      partsIn(first).map(() => true),
    )
    for (const [index, part] of partsIn(first).entries()) assert.equal(part, partsIn(again)[index])
  }
})

/** A call and its result of 20 kB. */
const stepOf = (step: number): readonly ChatMessage[] => [
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: `c${step}`, type: 'function', function: { name: 'read', arguments: '{"path":"ä"}' } }],
  },
  { role: 'tool', tool_call_id: `c${step}`, content: `${step} é\n`.repeat(3_000) },
]

/** The items of an input, or the blocks of the messages. */
const partsIn = (list: unknown): readonly unknown[] =>
  (list as readonly { content?: unknown }[]).flatMap((one) =>
    Array.isArray(one.content) ? (one.content as unknown[]) : [one],
  )
