/**
 * Text that may still be discarded. A terminal shows it at once and marks what was discarded; a file or a pipe cannot take text
 * back, so there it is held until it is final.
 */
import type { SessionEvent, SessionEventOf } from '@breakfall/wire'

export type Delta = SessionEventOf<'text-delta'> | SessionEventOf<'reasoning-delta'>

export class HeldText {
  readonly #parts = new Map<string, Delta>()

  add(event: Delta): void {
    const known = this.#parts.get(partOf(event))
    this.#parts.set(partOf(event), known === undefined ? event : { ...event, text: known.text + event.text })
  }

  discard(event: SessionEventOf<'part-discarded'>): void {
    this.#parts.delete(partOf(event))
  }

  /** Everything held, in order, if this event makes it final. */
  release(event: SessionEvent): readonly Delta[] {
    if (!FINAL.has(event.type)) return []
    const parts = [...this.#parts.values()]
    this.#parts.clear()
    return parts
  }
}

// ---- details ----

/** Before these, what is void was discarded: calls are released by a complete answer, and the rest ends a step or the turn. */
const FINAL: ReadonlySet<SessionEvent['type']> = new Set(['tool-call', 'step-start', 'turn-end', 'turn-error'])

type Part = { readonly turnId: string; readonly step: number; readonly attempt: number; readonly part: string }

const partOf = ({ turnId, step, attempt, part }: Part): string => `${turnId} ${step} ${attempt} ${part}`
