import assert from 'node:assert/strict'
import { test } from 'node:test'
import { edited, noteOf, textOf, wasWritten } from '../src/tools/file-bytes.ts'

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

/** The bytes after an edit, or why it was refused. */
function outcome(bytes: Buffer, old: string, text: string): Buffer | string {
  const change = edited(bytes, { old, new: text })
  if (change.do === 'write') return change.bytes
  assert.equal(change.outcome.outcome, 'failed')
  return change.outcome.text
}

const told = (content: string, old: string, text: string): string => String(outcome(Buffer.from(content), old, text))

test('an edit writes if the text occurs exactly once', () => {
  assert.equal(told('a b c', 'b', 'x'), 'a x c')
  assert.equal(told('Grüße 😀!', '😀', '$&'), 'Grüße $&!')
  assert.match(told('a b b', 'b', 'x'), /occurs 2 times/)
  assert.match(told('aaa', 'aa', 'x'), /occurs 2 times/)
  assert.match(told('a c', 'b', 'x'), /does not occur/)
})

test('an edit of a file in any encoding changes the bytes it replaces and no others', () => {
  let seed = 7
  const next = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
  for (let round = 0; round < 500; round += 1) {
    const around = (): Buffer => Buffer.from(Array.from({ length: next(40) }, () => 0x20 + next(0xe0)))
    const [before, after] = [around(), around()]
    const bytes = Buffer.concat([before, Buffer.from('\nprice=10;'), after])
    const expected = Buffer.concat([before, Buffer.from('\nprice=12;'), after])
    assert.deepEqual(outcome(bytes, '\nprice=10;', '\nprice=12;'), expected, `round ${round}`)
  }
})

test('an edit of a file that is not UTF-8 is refused if it would mix two encodings or tear a character', () => {
  const prices = latin1('Grüße\npreis=10\n')
  assert.deepEqual(outcome(prices, 'preis=10', 'preis=12'), latin1('Grüße\npreis=12\n'))
  assert.match(String(outcome(prices, 'preis=10', 'größe=10')), /not UTF-8.*mix two encodings/)
  assert.match(String(outcome(prices, 'Gr��e', 'Hello')), /not UTF-8/)
  const shiftJis = Buffer.from([0x83, 0x5c, 0x6e, 0x0a]) // ソn: its second byte is a backslash
  assert.match(String(outcome(shiftJis, '\\n', 'x')), /share a character/)
})

test('an edit of a file that is no text, or of half a character, is refused', () => {
  assert.match(String(outcome(Buffer.from('\ufeffhello', 'utf16le'), 'hello', 'x')), /UTF-16/)
  assert.match(String(outcome(Buffer.from('\x7fELF\0main'), 'main', 'x')), /no text/)
  assert.match(told('a b c', 'b', '\ud83d'), /half a character/)
})

test('a file with CRLF is shown with plain line ends and keeps its CRLF when it is edited', () => {
  const dos = 'one\r\ntwo\r\nthree\r\n'
  const shown = textOf(Buffer.from(dos))
  assert.deepEqual(shown.kind === 'text' && shown.text, 'one\ntwo\nthree\n')
  assert.match(shown.kind === 'text' ? shown.note : '', /CRLF/)
  assert.equal(told(dos, 'one\ntwo\n', '1\n2\n2b\n'), '1\r\n2\r\n2b\r\nthree\r\n')
  assert.equal(told(dos, 'one\r\ntwo', 'a\nb'), 'a\r\nb\r\nthree\r\n')
  assert.equal(told(dos, 'two', '2\n2b'), 'one\r\n2\r\n2b\r\nthree\r\n')
})

test('a file that mixes line ends is shown and edited as it is', () => {
  const mixed = 'one\r\ntwo\nthree\n'
  assert.deepEqual(textOf(Buffer.from(mixed)), { kind: 'text', text: mixed, note: '' })
  assert.equal(told(mixed, 'two\n', '2\n'), 'one\r\n2\nthree\n')
  assert.match(told(mixed, 'one\ntwo', 'x'), /some in LF/)
})

test('a byte order mark survives an edit of the first line', () => {
  assert.equal(told('\ufeffone\ntwo\n', 'one', '1'), '\ufeff1\ntwo\n')
})

test('a model is told what it cannot see of a file', () => {
  const shown = textOf(latin1('Grüße\n'))
  assert.ok(shown.kind === 'text')
  assert.equal(shown.text, 'Gr��e\n')
  assert.match(shown.note, /not UTF-8/)
  assert.deepEqual(textOf(Buffer.from('plain\n')), { kind: 'text', text: 'plain\n', note: '' })
  for (const bytes of [
    Buffer.from([0x1f, 0x8b, 0x08, 0x01, 0xff]),
    Buffer.from('\x7fELF\0'),
    Buffer.from('\ufeffa', 'utf16le'),
  ])
    assert.equal(textOf(bytes).kind, 'binary')
})

test('an interrupted write is judged by the whole file, and by nothing that it happens to contain', () => {
  const [before, after] = [Buffer.from('f() {\n}\n'), Buffer.from('g() {\n}\n')]
  const note = noteOf(before, after)
  assert.equal(wasWritten(after, note), 'yes')
  assert.equal(wasWritten(before, note), 'no')
  assert.equal(wasWritten(Buffer.from('g() {\n}\n\n'), note), 'unknown')
  assert.equal(wasWritten(null, note), 'unknown')
  assert.equal(wasWritten(null, noteOf(null, after)), 'no')
  assert.equal(wasWritten(after, undefined), 'unknown', 'a journal of an earlier version')
})
