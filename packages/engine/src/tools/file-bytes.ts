/**
 * What a model sees of a file, and what an edit of it changes. Pure.
 *
 * I1  An edit changes the bytes that it replaces and no others, whatever the encoding of the file.
 * I2  A file whose lines all end in CRLF is shown and edited as if they ended in LF, and keeps its CRLF.
 */
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { FileNote } from '../turn/state.ts'
import { failedOutcome, type ToolOutcome } from '../turn/tool-outcome.ts'

export type FileText =
  | { readonly kind: 'binary'; readonly what: string }
  /** `note`: what the model should know of its bytes; empty if they are plain UTF-8. */
  | { readonly kind: 'text'; readonly text: string; readonly note: string }

/** As the model reads it. */
export function textOf(bytes: Buffer): FileText {
  const encoding = encodingOf(bytes)
  if (encoding === 'utf-16')
    return { kind: 'binary', what: 'is UTF-16 text. Convert it to UTF-8 to read it, for example with iconv' }
  if (encoding === 'binary') return { kind: 'binary', what: 'is not a text file' }
  const isCrlf = endsInCrlf(bytes)
  const notes = [
    ...(encoding === 'utf-8' ? [] : [NOT_UTF8]),
    ...(isCrlf ? ['its lines end in CRLF, and edit keeps that'] : []),
  ]
  const text = bytes.toString('utf8')
  return { kind: 'text', text: isCrlf ? text.replaceAll('\r\n', '\n') : text, note: notes.join('; ') }
}

export type Edited =
  | { readonly do: 'write'; readonly bytes: Buffer }
  | { readonly do: 'answer'; readonly outcome: ToolOutcome }

/** What becomes of a file. */
export function edited(bytes: Buffer, given: { readonly old: string; readonly new: string }): Edited {
  const encoding = encodingOf(bytes)
  if (encoding === 'utf-16' || encoding === 'binary') {
    const what = encoding === 'binary' ? 'no text' : 'UTF-16 text'
    return refused(`the file is ${what}. Nothing was changed. Use a command that understands it.`)
  }
  if (!given.old.isWellFormed() || !given.new.isWellFormed()) return refused(HALF_CHARACTER)
  const isForeign = encoding === 'other'
  if (isForeign && !isAscii(given.old + given.new)) return refused(FOREIGN)
  const asStored = (text: string): Buffer => Buffer.from(endsInCrlf(bytes) ? text.replaceAll(/\r?\n/g, '\r\n') : text) // I2
  const old = asStored(given.old)
  const at = bytes.indexOf(old)
  if (at === -1) {
    const why = bytes.includes('\r\n') && !endsInCrlf(bytes) ? ' Some of its lines end in CRLF and some in LF.' : ''
    return refused(`the text to replace does not occur in the file; nothing was changed.${why}`)
  }
  if (bytes.includes(old, at + 1))
    return refused(
      `the text to replace occurs ${occurrences(bytes, old)} times; give more of its surroundings. Nothing was changed.`,
    )
  if (isForeign && mayBeSecondByte(bytes, at)) return refused(TORN)
  return {
    do: 'write',
    bytes: Buffer.concat([bytes.subarray(0, at), asStored(given.new), bytes.subarray(at + old.length)]),
  } // I1
}

/** For the journal, before a file is written. Null: there is no file. */
export const noteOf = (before: Buffer | null, after: Buffer): FileNote => ({
  before: before === null ? null : hashOf(before),
  after: hashOf(after),
})

/**
 * Whether an interrupted write was made: known only by what the whole file was and was to become. Without a note, in journals of
 * earlier versions, it is unknown.
 */
export function wasWritten(current: Buffer | null, note: FileNote | undefined): 'yes' | 'no' | 'unknown' {
  const hash = current === null ? null : hashOf(current)
  if (note === undefined) return 'unknown'
  if (hash === note.after) return 'yes'
  return hash === note.before ? 'no' : 'unknown'
}

export const HALF_CHARACTER =
  'the text contains half a character (an unpaired surrogate), which no file can hold. Nothing was changed.'

// ---- details ----

const NOT_UTF8 =
  'the file is not UTF-8: each � stands for bytes that cannot be shown; edit can replace its ASCII text and leaves all other bytes as they are'

const FOREIGN =
  'the file is not UTF-8, so only ASCII text can be replaced by ASCII text in it: anything else would mix two encodings. Nothing was changed. Choose a piece without other characters, or use a command that knows the encoding.'

const TORN =
  'the file is not UTF-8, and the text to replace begins right after a byte that it may share a character with. Nothing was changed. Begin it elsewhere, best at the start of a line.'

const refused = (text: string): Edited => ({ do: 'answer', outcome: failedOutcome(text) })

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

function encodingOf(bytes: Buffer): 'utf-8' | 'utf-16' | 'binary' | 'other' {
  const hasNul = bytes.includes(0)
  if (hasNul) return isUtf16(bytes) ? 'utf-16' : 'binary'
  if (isUtf8(bytes)) return 'utf-8'
  return bytes.some(isControl) ? 'binary' : 'other'
}

const isUtf16 = ([first, second]: Buffer): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)

/** No text of any encoding has it. Tabs, line ends, form feeds, backspaces and escapes do occur. */
const isControl = (byte: number): boolean => byte < 0x20 && !CONTROLS_OF_TEXT.has(byte)
const CONTROLS_OF_TEXT: ReadonlySet<number> = new Set([0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x1a, 0x1b])

// eslint-disable-next-line no-control-regex -- ASCII begins with control characters
const isAscii = (text: string): boolean => /^[\x00-\x7f]*$/.test(text)

/** In some encodings the second byte of a character looks like ASCII, from `0` on: a match from there would tear the character. */
const mayBeSecondByte = (bytes: Buffer, at: number): boolean => (bytes[at - 1] ?? 0) >= 0x80 && (bytes[at] ?? 0) >= 0x30

/** Whether it has lines, and every one ends in CRLF. */
function endsInCrlf(bytes: Buffer): boolean {
  let at = bytes.indexOf(0x0a)
  if (at === -1) return false
  for (; at !== -1; at = bytes.indexOf(0x0a, at + 1)) if (bytes[at - 1] !== 0x0d) return false
  return true
}

function occurrences(bytes: Buffer, piece: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(piece); at !== -1; at = bytes.indexOf(piece, at + 1)) count += 1
  return count
}
