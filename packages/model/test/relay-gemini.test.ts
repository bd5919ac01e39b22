/** The relay in Gemini's dialect: calls, signatures and what else a chunk holds, over a heal. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chunkOf, says, stops } from '../../../test/kit/gemini-frames.ts'
import { cut, type Play, stream } from '../../../test/kit/plays.ts'
import { relayed as relay, type Relayed } from './relayed.ts'

const relayed = (plays: readonly Play[]): Promise<Relayed> => relay(plays, { api: 'gemini' })

const call = (path: string) => ({ functionCall: { name: 'ls', args: { path } } })
const partsOf = ({ frames }: Relayed): readonly unknown[] =>
  frames.flatMap(({ json }) => json.candidates[0].content.parts as unknown[])

test('a call is never lost over a heal: the last text and a call in one chunk', async () => {
  const first = cut(chunkOf([{ text: 'I will ' }, { text: 'look.' }]))
  for (const chunks of [
    [says('I will '), chunkOf([{ text: 'look.' }, call('a')]), chunkOf([call('b')])],
    [chunkOf([{ text: 'I will look.' }, call('a'), call('b')])],
  ]) {
    const got = await relayed([first, stream(...chunks, stops())])
    assert.deepEqual([got.text, got.calls], ['I will look.', ['{"path":"a"}', '{"path":"b"}']])
  }
  const whole = await relayed([first, stream(chunkOf([{ text: 'I will look.' }, call('a')], { finishReason: 'STOP' }))])
  assert.deepEqual(whole.calls, ['{"path":"a"}'])
})

test('a thoughtSignature on text that the client has reaches it once', async () => {
  const signed = chunkOf([{ text: 'Hello', thoughtSignature: 'SIG' }])
  const after = chunkOf([{ text: '', thought: true, thoughtSignature: 'SIG' }])
  const twice = await relayed([cut(says('Hello'), after), stream(says('Hello'), after, says(' world'), stops())])
  assert.deepEqual([twice.text, twice.body.match(/SIG/g)?.length], ['Hello world', 1])
  for (const first of [says('Hello'), says('Hel'), signed]) {
    const got = await relayed([cut(first), stream(signed, says(' world'), stops())])
    assert.equal(got.text, 'Hello world')
    assert.equal(got.body.match(/SIG/g)?.length, 1)
  }
})

test('a call of a second candidate waits for the end, too', async () => {
  const both = (first: object, second: object, finishReason?: string): string =>
    `data: ${JSON.stringify({ candidates: [first, second].map((part, index) => ({ index, finishReason, content: { parts: [part] } })) })}\n\n`
  const calling = both({ text: 'Hello' }, call('a'))
  const broken = await relay([cut(calling)], { api: 'gemini', policy: { attemptsMax: 2 } })
  assert.doesNotMatch(broken.body, /functionCall/)
  const whole = await relayed([stream(calling, both({ text: '!' }, { text: '' }, 'STOP'))])
  assert.deepEqual([whole.text, whole.outcome.fault], ['Hello!', null])
  assert.match(whole.body, /functionCall/)
})

test('thoughts and text in one chunk are told apart where a heal joins them', async () => {
  const thought = (text: string) => ({ text, thought: true })
  const got = await relayed([
    cut(chunkOf([thought('hm'), { text: 'Hel' }])),
    stream(chunkOf([thought('h'), thought('m'), { text: 'He' }, { text: 'llo' }]), stops()),
  ])
  assert.deepEqual(partsOf(got).slice(2), [{ text: 'lo' }, { text: '' }])
})
