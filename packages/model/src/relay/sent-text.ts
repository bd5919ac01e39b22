/** What went to the client, in order, to compare another answer with, and to continue it. */
import { FlatText } from '../lib/flat-text.ts'
import { KnownText, type Segment, type SegmentKind } from '../machine/known-text.ts'

export class SentText {
  /** Over all attempts. */
  readonly known = new KnownText()
  readonly #keepsText: boolean
  #segments: { readonly kind: SegmentKind; readonly text: FlatText }[] = []

  /** `keepsText`: a server could continue it, so the text itself is needed. */
  constructor(keepsText: boolean) {
    this.#keepsText = keepsText
  }

  add(segment: Segment): void {
    const { kind, text } = segment
    this.known.add(segment)
    const kept = this.#keepsText ? text : ''
    const last = this.#segments.at(-1)
    if (last?.kind === kind) last.text.add(kept)
    else this.#segments.push({ kind, text: new FlatText(kept) })
  }

  /** Everything since the last call; without its text if no server could continue it. */
  take(): readonly Segment[] {
    const segments = this.#segments.map(({ kind, text }) => ({ kind, text: text.toString() }))
    this.#segments = []
    return segments
  }
}
