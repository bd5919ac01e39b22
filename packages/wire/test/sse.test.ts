import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { createParser } from 'eventsource-parser'
import fc from 'fast-check'
import { encodeSse, SseDecoder, type SseFrame } from '../src/index.ts'
import { encodeSseComment } from '../src/sse.ts'

function decodeAll(chunks: readonly (Uint8Array | string)[]): {
  frames: SseFrame[]
  comments: string[]
} {
  const frames: SseFrame[] = []
  const comments: string[] = []
  const decoder = new SseDecoder({
    onEvent: (frame) => frames.push(frame),
    onComment: (comment) => comments.push(comment),
  })
  for (const chunk of chunks) decoder.push(chunk)
  return { frames, comments }
}

const line = fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n\0]/g, ''))
const frame = fc.record({
  event: fc.option(
    line.filter((text) => text.trim() !== ''),
    { nil: undefined },
  ),
  id: fc.option(
    line.filter((text) => text.trim() !== ''),
    { nil: undefined },
  ),
  data: fc.array(line, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('\n')),
})

test('encoded events decode to the same events, cut at any byte', () => {
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 6 }), fc.array(fc.nat(), { maxLength: 12 }), (frames, cuts) => {
      const bytes = new TextEncoder().encode(frames.map(encodeSse).join(''))
      const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b)
      const chunks = [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length))
      const { frames: got } = decodeAll(chunks)
      const plain = (f: SseFrame): object => ({ event: f.event, id: f.id, data: f.data })
      assert.deepEqual(got.map(plain), frames.map(plain))
    }),
  )
})

test('one event survives a cut at every single byte, also inside a character and inside CRLF', () => {
  const bytes = new TextEncoder().encode(': ping\r\n\r\nevent: a\r\nid: 7\r\ndata: grüße 🥋\r\ndata: zwei\r\n\r\n')
  for (let cut = 0; cut <= bytes.length; cut++) {
    const { frames, comments } = decodeAll([bytes.subarray(0, cut), bytes.subarray(cut)])
    assert.equal(frames.length, 1)
    assert.deepEqual({ ...frames[0] }, { event: 'a', id: '7', data: 'grüße 🥋\nzwei' })
    assert.deepEqual(comments, ['ping'])
  }
})

test('a carriage return at the end of the body ends its line, and an event without its empty line is not dispatched', () => {
  for (const [text, whole] of [
    ['data: a\r\rdata: b\r\r', ['a', 'b']],
    ['data: a\n\ndata: b\n\r', ['a', 'b']],
    ['data: a\r\n\r\ndata: b\r\n\r', ['a', 'b']],
    ['data: a\r\rdata: b\r', ['a']],
    ['data: a\n\ndata: b\n', ['a']],
    ['data: a\n\ndata: b', ['a']],
    ['', []],
  ] as const)
    for (let cut = 0; cut <= text.length; cut++) {
      const frames: SseFrame[] = []
      const decoder = new SseDecoder({ onEvent: (frame) => frames.push(frame) })
      decoder.push(text.slice(0, cut))
      decoder.push(text.slice(cut))
      decoder.end()
      assert.deepEqual(
        frames.map(({ data }) => data),
        whole,
        JSON.stringify([text, cut]),
      )
    }
})

test('a body that ended inside a line end and goes on at the same byte has no line more', () => {
  const frames: SseFrame[] = []
  const decoder = new SseDecoder({ onEvent: (frame) => frames.push(frame) })
  for (const piece of ['data: a\r', '\ndata: b\r\n\r', '\ndata: c\r', 'data: d\r\r']) {
    decoder.push(piece)
    decoder.end()
  }
  assert.deepEqual(
    frames.map(({ data }) => data),
    ['a\nb', 'c\nd'],
  )
})

test('an endless line is a fault and does not fill memory', () => {
  const decoder = new SseDecoder({ onEvent: () => assert.fail('no event'), bufferCharsMax: 1000 })
  assert.throws(
    () => {
      for (let i = 0; i < 100; i++) decoder.push('data: ' + 'x'.repeat(100))
    },
    (error) => isFault(error) && error.category === 'payload_too_large',
  )
  assert.throws(() => decoder.push('\n\n'), 'and it stays one')
})

test('unknown fields, comments and bad retry values are skipped as the format requires', () => {
  const { frames, comments } = decodeAll(['foo: bar\nretry: soon\ndata: x\n\n: OPENROUTER PROCESSING\n\ndata\n\n'])
  assert.deepEqual(
    frames.map((f) => f.data),
    ['x', ''],
  )
  assert.deepEqual(comments, ['OPENROUTER PROCESSING'])
})

test('no field can break out of its line', () => {
  const text = encodeSse({ event: 'a\ndata: evil', id: '1\r\n2', data: 'x' }) + encodeSseComment('c\n\ndata: evil')
  assert.deepEqual(
    decodeAll([text]).frames.map((f) => f.data),
    ['x'],
  )
})

test('plain events are read as the whole format would be, wherever they are and wherever the text is cut', () => {
  const pieces = ['data: x', 'data:y', 'data: ', 'event: e', 'event:f', 'event: ', 'id: 7', ': c', 'odd', '', '', '']
  const ends = fc.constantFrom('\n', '\n', '\n', '\n', '\r\n', '\r')
  const lines = fc.array(fc.tuple(fc.constantFrom(...pieces), ends), { maxLength: 30 })
  fc.assert(
    fc.property(lines, fc.boolean(), fc.array(fc.nat(), { maxLength: 8 }), (made, isPlain, cuts) => {
      const text = made.map(([line, end]) => line + (isPlain ? '\n' : end)).join('')
      const at = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b)
      const chunks = [0, ...at].map((from, i) => text.slice(from, at[i] ?? text.length))
      const expected: SseFrame[] = []
      const expectedComments: string[] = []
      const parser = createParser({
        onEvent: (frame) => expected.push(frame),
        onComment: (comment) => expectedComments.push(comment),
      })
      for (const chunk of chunks) parser.feed(chunk)
      const { frames, comments } = decodeAll(chunks)
      const plain = (f: SseFrame): object => ({ event: f.event, id: f.id, data: f.data })
      assert.deepEqual(frames.map(plain), expected.map(plain))
      assert.deepEqual(comments, expectedComments)
      for (const { source, ...frame } of frames)
        if (source !== undefined) assert.equal(source.read.text.slice(source.from, source.to), encodeSse(frame))
    }),
    { numRuns: 3_000 },
  )
})

test('whoever reads events itself is asked at each event, and the rest follows', () => {
  const asked: string[] = []
  const frames: string[] = []
  const decoder = new SseDecoder({
    onEvent: ({ data }) => frames.push(data),
    onRun: ({ text }, from) => {
      asked.push(text.slice(from))
      return text.startsWith('data: mine\n\n', from) ? from + 'data: mine\n\n'.length : from
    },
  })
  decoder.push('data: mine\n\ndata: a\n\ndata: mi')
  decoder.push('ne\n\ndata: mine\n\n: c\n\ndata: mine\n\n')
  assert.deepEqual(frames, ['a', 'mine', 'mine'], 'an event that is cut, or after another form, is not offered')
  assert.equal(asked.length, 3)
})
