/**
 * How far a reader of a session's events is, whatever carries them: an SSE stream here, a WebSocket in the console.
 *
 * I1  Every event once, in order. The next connection asks for what follows the last event received.
 * I2  Only a `reset` starts over: the cursor belongs to another journal. Then events count from 1 again.
 */
import { type ReportedFault, reportedFault } from '@breakfall/faults/caller'
import { parseCursor } from './wire.ts'

export type Cursor = string | number

export class EventPosition {
  /** What the next connection continues after. Undefined: from the first event. */
  cursor: Cursor | undefined
  #seq: number

  /** `after`: a cursor (`JOURNAL-SEQ`) or a bare sequence number. */
  constructor(after?: Cursor) {
    this.cursor = after
    this.#seq = parseCursor(after)?.seq ?? 0
  }

  reset(): void {
    this.#seq = 0 // I2
    this.cursor = undefined
  }

  /** False if the event was received before. Throws if events are missing before it. */
  take(seq: number, cursor: Cursor): boolean {
    if (seq <= this.#seq) return false // I1
    if (seq > this.#seq + 1) throw gapFault(this.#seq + 1, seq) // I1
    this.#seq = seq
    this.cursor = cursor
    return true
  }
}

// ---- details ----

const gapFault = (expected: number, got: number): ReportedFault =>
  reportedFault('other', {
    boundary: 'daemon',
    error: `The daemon skipped events: expected number ${expected}, received ${got}.`,
    next: 'never',
  })
