/**
 * Lets an answer through once it goes beyond what is known already, and only if it starts with exactly that. For answers that are asked for again, and for continuations, which some servers begin by repeating the text.
 *
 * I1  Nothing known comes out a second time, and nothing comes out before the beginning is certain to agree.
 */

export type SegmentKind = 'text' | 'reasoning'
export type Segment = { readonly kind: SegmentKind; readonly text: string }

export class PrefixGate {
  /** Longest first: an echo of everything is tried before a bare continuation. */
  readonly #candidates: readonly Candidate[]
  /** Appended to piece by piece and read once, at the end: reading it in between would copy it each time. */
  #seen = ''
  #kind: SegmentKind | undefined
  #isOpen = false

  /** Each alternative is one valid beginning of the answer. */
  constructor(alternatives: readonly (readonly Segment[])[]) {
    this.#candidates = alternatives
      .map((segments) => encode(segments))
      .toSorted((a, b) => b.length - a.length)
      .map((text) => ({ text, agrees: text === '' ? 'whole' : 'so far' }))
    this.#isOpen = this.#candidates.every(({ text }) => text === '')
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** The new part of this text; undefined if the answer does not begin as it must. */
  push(kind: SegmentKind, text: string): string | undefined {
    if (this.#isOpen) return text
    if (text === '') return ''
    const piece = kind === this.#kind ? text : MARK[kind] + text
    for (const candidate of this.#candidates) compare(candidate, this.#seen.length, piece)
    this.#seen += piece
    this.#kind = kind
    const first = this.#candidates.find(({ agrees }) => agrees !== 'no')
    if (first === undefined) return undefined
    return first.agrees === 'whole' ? this.#open(first.text, kind) : '' // I1
  }

  /** The answer ends here, or something other than text follows: the text held back, or undefined if it fell short. */
  close(): string | undefined {
    if (this.#isOpen) return ''
    const candidate = this.#candidates.find(({ agrees }) => agrees === 'whole')
    return candidate === undefined ? undefined : this.#open(candidate.text, this.#kind ?? 'text')
  }

  #open(candidate: string, kind: SegmentKind): string {
    this.#isOpen = true
    const rest = this.#seen.slice(candidate.length)
    this.#seen = ''
    return rest.startsWith(MARK[kind]) ? rest.slice(MARK[kind].length) : rest
  }
}

// ---- details ----

/** `whole`: all of it was seen, and perhaps more. */
type Candidate = { readonly text: string; agrees: 'so far' | 'whole' | 'no' }

/** Compares only the new piece: a book-length answer comes in as many pieces as it has words. */
function compare(candidate: Candidate, at: number, piece: string): void {
  if (candidate.agrees !== 'so far') return
  const { text } = candidate
  const isLast = at + piece.length >= text.length
  const expected = text.slice(at, at + piece.length)
  const agrees = isLast ? piece.startsWith(expected) : piece === expected
  candidate.agrees = !agrees ? 'no' : isLast ? 'whole' : 'so far'
}

/** The boundary between two kinds of text is part of the beginning. No model writes a NUL. */
const MARK: Readonly<Record<SegmentKind, string>> = { text: '\0t', reasoning: '\0r' }

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
