import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { LINE_LIMITS, type Line, LineSplitter } from '../src/lines.ts'

function split(...chunks: readonly (string | Uint8Array)[]): readonly Line[] {
  const lines: Line[] = []
  const splitter = new LineSplitter((line) => lines.push(line))
  for (const chunk of chunks) splitter.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
  splitter.end()
  return lines
}

const texts = (...chunks: readonly (string | Uint8Array)[]): readonly string[] =>
  split(...chunks).map((line) => line.text)

describe('the line splitter', () => {
  it('splits at LF, CRLF and a lone CR, and keeps empty lines', () => {
    assert.deepEqual(texts('a\nb\r\nc\rd\n\ne'), ['a', 'b', 'c', 'd', '', 'e'])
  })

  it('treats a CRLF split across chunks as one line end', () => {
    assert.deepEqual(texts('a\r', '\nb'), ['a', 'b'])
    assert.deepEqual(texts('a\r', 'b'), ['a', 'b'])
  })

  it('joins characters split across chunks, and marks invalid bytes', () => {
    const bytes = Buffer.from('né✓\n')
    assert.deepEqual(texts(bytes.subarray(0, 2), bytes.subarray(2, 4), bytes.subarray(4)), ['né✓'])
    assert.deepEqual(texts(new Uint8Array([0x61, 0xff, 0x00, 0x62, 0x0a])), ['a\ufffd\u0000b'])
    assert.deepEqual(texts('\ufeffbom\n'), ['bom'])
  })

  it('keeps head and tail of a line that is too long, and says how much is missing', () => {
    const long = `${'h'.repeat(50_000)}END`
    const [line] = split(long)
    assert.ok(line !== undefined)
    assert.ok(line.text.startsWith('hhh') && line.text.endsWith('hEND'))
    assert.equal(line.droppedBytes, long.length - LINE_LIMITS.headBytesMax - LINE_LIMITS.tailBytesMax)
  })

  it('gives the same lines however the bytes are split into chunks', () => {
    const piece = fc.constantFrom('a', '\n', '\r', '\r\n', '✓', 'x'.repeat(9_000), '\u0000')
    const cuts = fc.array(fc.integer({ min: 1, max: 12_000 }), { minLength: 1, maxLength: 9 })
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), cuts, (pieces, sizes) => {
        const whole = Buffer.from(pieces.join(''))
        const chunks: Uint8Array[] = []
        for (let at = 0, turn = 0; at < whole.length; turn += 1) {
          const size = sizes[turn % sizes.length] ?? 1
          chunks.push(whole.subarray(at, at + size))
          at += size
        }
        assert.deepEqual(split(...chunks), split(whole))
      }),
    )
  })
})
