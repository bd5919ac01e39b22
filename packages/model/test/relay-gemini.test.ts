/** The relay in Gemini's dialect: calls, signatures and what else a chunk holds, over a heal. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chunkOf, says, stops } from '../../../test/kit/gemini-frames.ts'
import { cut, head, lastChunk, type Play, reset, stream } from '../../../test/kit/plays.ts'
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

test('a signature keeps its place over a heal', async () => {
  const signed = (text: string, signature: string) => ({ text, thoughtSignature: signature })
  const thought = { text: 'hm', thought: true }
  for (const [first, retry, rest] of [
    // The client's text goes on after its signature, and the retry's last one signs all of it.
    [
      [signed('a', 'A'), { text: 'b' }],
      [signed('ab', 'B'), call('x')],
      [signed('', 'B'), call('x')],
    ],
    // The client's signature signs more than those of the retry, and thoughts follow it.
    [
      [signed('ab', 'A'), thought],
      [signed('a', 'B'), signed('b', 'C'), { ...thought, text: 'hm!' }],
      [{ ...thought, text: '!' }],
    ],
    [
      [{ text: 'a' }, { text: 'b' }],
      [signed('a', 'A'), { text: 'bc' }],
      [signed('', 'A'), { text: 'c' }],
    ],
    [[signed('a', 'A')], [signed('a', 'A'), call('x'), signed('', 'B')], [call('x'), signed('', 'B')]],
  ] as const) {
    const chunks = (parts: readonly object[]): readonly string[] => parts.map((part) => chunkOf([part]))
    for (const given of [chunks(retry), [chunkOf(retry)]]) {
      const got = await relayed([cut(...chunks(first)), stream(...given, stops())])
      const said = partsOf(got).filter((part) => JSON.stringify(part) !== '{"text":""}')
      assert.deepEqual(said, [...first, ...rest])
    }
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

const candidate = (index: number, text: string, finishReason?: string): string =>
  `data: ${JSON.stringify({ candidates: [{ index, finishReason, content: { parts: [{ text }] } }] })}\n\n`
const TWO = { api: 'gemini', body: { generationConfig: { candidateCount: 2 } } } as const

test('an answer with several candidates is complete when each of them is', async () => {
  const whole = [candidate(0, 'a', 'STOP'), candidate(1, 'b', 'STOP')]
  const got = await relay([stream(candidate(0, 'a', 'STOP')), stream(...whole)], { ...TWO, hold: 'answer' })
  assert.deepEqual([got.body, got.requests.length], [whole.join(''), 2])
  const refused = `data: {"promptFeedback":{"blockReason":"SAFETY"}}\n\n`
  assert.equal((await relay([stream(refused)], TWO)).body, refused)
})

test('the output limit that ended one candidate says nothing about the calls of another', async () => {
  const ended = (index: number, part: object, finishReason: string): string =>
    `data: ${JSON.stringify({ candidates: [{ index, finishReason, content: { parts: [part] } }] })}\n\n`
  const noArguments = { functionCall: { name: 'ls', args: {} } }
  const whole = [ended(0, { text: 'a' }, 'MAX_TOKENS'), ended(1, noArguments, 'STOP')]
  assert.equal((await relay([stream(...whole)], TWO)).body, whole.join(''))
  const atLimit = [ended(0, noArguments, 'MAX_TOKENS'), ended(1, call('a'), 'STOP')]
  const cutCall = await relay([stream(...atLimit)], { ...TWO, policy: { attemptsMax: 1 } })
  assert.equal(cutCall.outcome.fault?.category, 'tool_call_truncated')
})

test('an answer with several candidates is not healed once some of it went out', async () => {
  const whole = stream(candidate(0, 'ab', 'STOP'), candidate(1, 'ab', 'STOP'))
  const got = await relay([cut(candidate(0, 'a')), whole], { ...TWO, canCut: true })
  assert.deepEqual([got.text, got.isCut, got.requests.length], ['a', true, 1])
})

test('a retry that gives more candidates than were asked for is another answer', async () => {
  const retry = stream(candidate(0, 'a'), candidate(1, 'a'), candidate(0, 'b', 'STOP'), candidate(1, 'b', 'STOP'))
  const got = await relay([cut(candidate(0, 'a')), retry], { api: 'gemini', canCut: true })
  assert.deepEqual([got.text, got.isCut], ['a', true])
})

test('lines that end in carriage returns are read to the last one', async () => {
  const crOnly = (text: string): string => text.replaceAll('\n', '\r')
  const got = await relayed([stream(crOnly(says('Hello')), crOnly(stops()))])
  assert.deepEqual([got.text, got.outcome.fault, got.requests.length], ['Hello', null, 1])
  const last = await relayed([stream(says('Hello'), crOnly(stops()))])
  assert.deepEqual([last.text, last.requests.length], ['Hello', 1])
  const cutInside = await relayed([stream(says('Hello'), crOnly(stops()).slice(0, -1)), stream(says('Hello'), stops())])
  assert.deepEqual([cutInside.text, cutInside.requests.length], ['Hello', 2])
})

test('thoughts and text in one chunk are told apart where a heal joins them', async () => {
  const thought = (text: string) => ({ text, thought: true })
  const got = await relayed([
    cut(chunkOf([thought('hm'), { text: 'Hel' }])),
    stream(chunkOf([thought('h'), thought('m'), { text: 'He' }, { text: 'llo' }]), stops()),
  ])
  assert.deepEqual(partsOf(got).slice(2), [{ text: 'lo' }, { text: '' }])
})

test('a silent model is bridged with blank lines, and no comment reaches the client', async () => {
  let body = ''
  const { promise: pinged, resolve } = Promise.withResolvers<void>()
  const got = await relay(
    [
      [head(), ': ping\n\n', () => pinged, reset],
      [head(), says('Hello'), stops(), lastChunk],
    ],
    {
      api: 'gemini',
      pingMs: 5,
      onWrite: (piece) => {
        body += piece
        if (body.length > 1) resolve()
      },
    },
  )
  assert.deepEqual([got.text, got.comments, got.requests.length], ['Hello', [], 2])
  assert.match(got.body, /^\n\n+data: /)
})

// ---- arguments that are streamed ----

const begins = { functionCall: { name: 'getWeather', willContinue: true } }
const grows = {
  functionCall: {
    partialArgs: [{ jsonPath: '$.location', stringValue: 'Boston', willContinue: true }],
    willContinue: true,
  },
}
const over = { functionCall: {} }
const STREAMED: readonly (readonly (readonly object[])[])[] = [
  [[begins], [grows], [over]],
  [[begins], [grows], [over], [begins], [grows, over]],
  [
    [begins, grows],
    [begins, over],
  ], // the next call begins without an end of the first
  [[begins], [over]],
  [[begins], [grows]], // the model stops without an end of its last call
  [
    [
      { functionCall: { name: 'a', partialArgs: [{ jsonPath: '$.n', numberValue: 1 }] } },
      { functionCall: { name: 'b' } },
    ],
  ],
]

test('calls with streamed arguments arrive as they came, at the first request', async () => {
  for (const chunks of STREAMED) {
    const answer = [...chunks.map((parts) => chunkOf(parts)), stops()]
    const got = await relayed([stream(...answer)])
    assert.deepEqual([got.status, got.requests.length], [200, 1], JSON.stringify(chunks))
    assert.equal(got.body, answer.join(''))
  }
})

test('a call with streamed arguments that breaks, or ends at the token limit, is asked for again', async () => {
  const whole = [chunkOf([begins]), chunkOf([grows]), chunkOf([over]), stops()]
  for (let at = 1; at <= 3; at++) {
    const got = await relayed([cut(...whole.slice(0, at)), stream(...whole)])
    assert.deepEqual([got.body.replace(/^:.*\n\n/gm, ''), got.requests.length], [whole.join(''), 2])
  }
  const short = stream(chunkOf([begins]), chunkOf([grows], { finishReason: 'MAX_TOKENS' }))
  const refused = await relay([short], { api: 'gemini', policy: { attemptsMax: 2 } })
  assert.equal(refused.outcome.fault?.category, 'tool_call_truncated')
})
