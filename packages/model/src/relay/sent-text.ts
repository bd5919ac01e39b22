/** What went to the client, in order, to compare another answer with. */
import { FlatText } from '../flat-text.ts'
import type { Segment, SegmentKind } from '../machine/prefix-gate.ts'

export class SentText {
  #segments: { readonly kind: SegmentKind; readonly text: FlatText }[] = []

  add({ kind, text }: Segment): void {
    const last = this.#segments.at(-1)
    if (last?.kind === kind) last.text.add(text)
    else this.#segments.push({ kind, text: new FlatText(text) })
  }

  /** Everything since the last call. */
  take(): readonly Segment[] {
    const segments = this.#segments.map(({ kind, text }) => ({ kind, text: text.toString() }))
    this.#segments = []
    return segments
  }
}
