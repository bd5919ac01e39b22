/**
 * What went to the client, in order, to compare another answer with. It comes in a hundred thousand pieces: appended one by one
 * they would be a rope whose nodes take many times the memory of the text, so every few kilobytes become one flat string.
 */
import type { Segment, SegmentKind } from '../machine/prefix-gate.ts'

const FLAT_CHARS_MIN = 4_096

export class SentText {
  #segments: { readonly kind: SegmentKind; readonly flat: string[]; open: string }[] = []

  add({ kind, text }: Segment): void {
    const last = this.#segments.at(-1)
    if (last?.kind !== kind) {
      this.#segments.push({ kind, flat: [], open: text })
      return
    }
    last.open += text
    if (last.open.length < FLAT_CHARS_MIN) return
    last.flat.push(flattened(last.open))
    last.open = ''
  }

  /** Everything since the last call. */
  take(): readonly Segment[] {
    const segments = this.#segments.map(({ kind, flat, open }) => ({ kind, text: flat.join('') + open }))
    this.#segments = []
    return segments
  }
}

/** Through bytes and back: exact for every string, and certainly one piece. */
const flattened = (text: string): string => Buffer.from(text, 'utf16le').toString('utf16le')
