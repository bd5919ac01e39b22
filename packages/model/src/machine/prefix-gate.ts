/**
 * Lets an answer through once it goes beyond what is known already, and only if it starts with exactly that. For answers that
 * are asked for again, and for continuations, which some servers begin by repeating the text.
 *
 * I1  Nothing known comes out a second time, and nothing comes out before the beginning is certain to agree.
 * I2  No alternative begins with another one, so the first that is there in full is the one.
 */
import { KnownText, type KnownTextReader, marked, type Segment, type SegmentKind } from './known-text.ts'

export type { Segment, SegmentKind }

export class PrefixGate {
  /** Those that the answer may still begin with. */
  #candidates: readonly KnownTextReader[]
  #seen = 0
  #kind: SegmentKind | undefined
  #isOpen: boolean

  /** Each alternative is one valid beginning of the answer. */
  constructor(alternatives: readonly (KnownText | readonly Segment[])[]) {
    const known = alternatives.map((one) => (one instanceof KnownText ? one : new KnownText(one)))
    this.#isOpen = known.every(({ length }) => length === 0)
    this.#candidates = known.map((one) => one.reader())
  }

  /** The answer began as it must: what follows is new. One that ends before that, or says something else, is another. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** The new part of this text; undefined if the answer does not begin as it must. */
  push(kind: SegmentKind, text: string): string | undefined {
    if (this.#isOpen) return text
    if (text === '') return ''
    const piece = marked(kind, this.#kind, text)
    const at = this.#seen
    this.#seen += piece.length
    this.#kind = kind
    this.#candidates = this.#candidates.filter((candidate) => candidate.agrees(piece))
    if (this.#candidates.length === 0) return undefined
    const whole = this.#candidates.find(({ length }) => length <= this.#seen)
    if (whole === undefined) return ''
    this.#isOpen = true
    this.#candidates = []
    return piece.slice(whole.length - at) // I1
  }
}
