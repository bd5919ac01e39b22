/** What signs the thoughts of a chat completion, over a heal: each signature reaches the client once, wherever the stream broke. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { choice, done, finish } from '../../../test/kit/openai-frames.ts'
import { cut, stream } from '../../../test/kit/plays.ts'
import { relayed } from './relayed.ts'

/** OpenRouter puts the role into every frame. */
const says = (delta: object): string => choice({ role: 'assistant', content: '', ...delta })
const signs = (data: string): string => says({ reasoning_details: [{ type: 'reasoning.encrypted', data }] })
const thinks = (text: string, more: object = {}): string =>
  says({ reasoning: text, reasoning_details: [{ type: 'reasoning.text', text, ...more }] })

/** Both ways to sign: in a separate frame, and with the end of the thought. */
const ANSWERS: readonly ((signature: string) => readonly string[])[] = [
  (signature) => [thinks('h'), thinks('m'), signs(signature), says({ content: 'Hel' }), says({ content: 'lo' })],
  (signature) => [thinks('h'), thinks('m', { signature }), says({ content: 'Hel' }), says({ content: 'lo' })],
  (signature) => [says({ content: 'Hel' }), says({ content: 'lo' }), signs(signature)],
  (signature) => [says({ content: 'Hel', reasoning_details: [{ type: 'reasoning.encrypted', data: signature }] })],
]

for (const [at, answer] of ANSWERS.entries()) {
  test(`a thought is signed once, wherever the stream broke (${at + 1})`, async () => {
    const first = answer('first')
    const retry = [...answer('retry'), finish('stop'), done]
    for (let sent = 1; sent <= first.length; sent++) {
      const got = await relayed([cut(...first.slice(0, sent)), stream(...retry)])
      const what = `after ${sent} frames`
      assert.deepEqual([got.isEnded, got.requests.length], [true, 2], what)
      assert.equal(got.body.match(/"(?:data|signature)":"/g)?.length, 1, what)
      assert.equal(got.text, at === 3 ? 'Hel' : 'Hello', what)
    }
  })
}

test('each of several thoughts is signed once', async () => {
  const answer = (name: string): readonly string[] => [
    thinks('a', { signature: `${name}1` }),
    says({ content: 'A' }),
    thinks('b'),
    signs(`${name}2`),
    says({ content: 'B' }),
  ]
  for (const [sent, signatures] of [
    [1, ['first1', 'retry2']],
    [4, ['first1', 'first2']],
  ] as const) {
    const got = await relayed([
      cut(...answer('first').slice(0, sent)),
      stream(...answer('retry'), finish('stop'), done),
    ])
    assert.deepEqual(
      Array.from(got.body.matchAll(/"(?:data|signature)":"(\w+)"/g), ([, value]) => value),
      signatures,
    )
  }
})
