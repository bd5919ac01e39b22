/**
 * Lets an answer through from the point where it goes beyond what is already known, and only if it begins with exactly
 * that. For answers that are asked for again, and for continuations, which some servers begin with the text they continue.
 *
 * I1  Nothing that is known comes out a second time, and nothing comes out before it is certain that the beginning agrees.
 */

export type SegmentKind = 'text' | 'reasoning'
export type Segment = { readonly kind: SegmentKind; text: string }

export class PrefixGate {
  /** Longest first: an echo of everything is tried before a bare continuation. */
  readonly #candidates: readonly Candidate[]
  /** Put together piece by piece and looked into once, at the end: looking in between would copy it each time. */
  #seen = ''
  #kind: SegmentKind | undefined
  #isOpen = false

  /** Each alternative is one way in which the answer may rightly begin. */
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

  /** What of this text is new; undefined where the answer does not begin as it must. */
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

  /** The answer goes on with something else, or is over: what was held back, or undefined where it fell short. */
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

/** Adds text to the list, growing the last segment where it is of the same kind. */
export function addSegment(segments: Segment[], kind: SegmentKind, text: string): void {
  const last = segments.at(-1)
  if (last?.kind === kind) last.text += text
  else segments.push({ kind, text })
}

// ---- details ----

/** `whole`: all of it was seen, and perhaps more. */
type Candidate = { readonly text: string; agrees: 'so far' | 'whole' | 'no' }

/** Only the new piece is compared: an answer as long as a book comes in as many pieces as it has words. */
function compare(candidate: Candidate, at: number, piece: string): void {
  if (candidate.agrees !== 'so far') return
  const { text } = candidate
  const isLast = at + piece.length >= text.length
  const expected = text.slice(at, at + piece.length)
  const agrees = isLast ? piece.startsWith(expected) : piece === expected
  candidate.agrees = !agrees ? 'no' : isLast ? 'whole' : 'so far'
}

/** Where one kind of text ends and the next begins is part of the beginning. No model writes a NUL. */
const MARK: Readonly<Record<SegmentKind, string>> = { text: '\0t', reasoning: '\0r' }

const encode = (segments: readonly Segment[]): string =>
  segments
    .filter(({ text }) => text !== '')
    .map(({ kind, text }) => MARK[kind] + text)
    .join('')
