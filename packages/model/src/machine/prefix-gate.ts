/**
 * Lets an answer through once it goes beyond what is known already, and only if it starts with exactly that. For answers that
 * are asked for again, and for continuations, which some servers begin by repeating the text.
 *
 * I1  Nothing known comes out a second time, and nothing comes out before the beginning is certain to agree.
 * I2  No alternative begins with another one, so the first that is there in full is the one.
 */
import assert from 'node:assert'

export type SegmentKind = 'text' | 'reasoning' | 'refusal'
export type Segment = { readonly kind: SegmentKind; readonly text: string }

export class PrefixGate {
  readonly #candidates: readonly Candidate[]
  #seen = 0
  #kind: SegmentKind | undefined
  #isOpen: boolean

  /** Each alternative is one valid beginning of the answer. */
  constructor(alternatives: readonly (readonly Segment[])[]) {
    this.#candidates = alternatives.map((segments) => ({ text: encode(segments), agrees: true }))
    this.#isOpen = this.#candidates.every(({ text }) => text === '')
    for (const { text } of this.#candidates)
      assert(this.#candidates.filter((other) => other.text.startsWith(text)).length === 1) // I2
  }

  /** The answer began as it must: what follows is new. One that ends before that, or says something else, is another. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** The new part of this text; undefined if the answer does not begin as it must. */
  push(kind: SegmentKind, text: string): string | undefined {
    if (this.#isOpen) return text
    if (text === '') return ''
    const piece = kind === this.#kind ? text : MARK[kind] + text
    const at = this.#seen
    this.#seen += piece.length
    this.#kind = kind
    for (const candidate of this.#candidates) {
      if (candidate.agrees) candidate.agrees = fits(candidate.text, at, piece)
      if (!candidate.agrees || this.#seen < candidate.text.length) continue
      this.#isOpen = true
      return piece.slice(candidate.text.length - at) // I1
    }
    return this.#candidates.some(({ agrees }) => agrees) ? '' : undefined
  }
}

// ---- details ----

type Candidate = { readonly text: string; agrees: boolean }

/** Compares only the new piece: a book-length answer comes in as many pieces as it has words. */
function fits(text: string, at: number, piece: string): boolean {
  const expected = text.slice(at, at + piece.length)
  return at + piece.length >= text.length ? piece.startsWith(expected) : piece === expected
}

/** The boundary between two kinds of text is part of the beginning. No model writes a NUL. */
const MARK: Readonly<Record<SegmentKind, string>> = { text: '\0t', reasoning: '\0r', refusal: '\0f' }

/** Neighbours of one kind are one stretch of text, however many parts it came in. */
function encode(segments: readonly Segment[]): string {
  let encoded = ''
  let last: SegmentKind | undefined
  for (const { kind, text } of segments) {
    if (text === '') continue
    encoded += kind === last ? text : MARK[kind] + text
    last = kind
  }
  return encoded
}
