/**
 * The processor time that reading answers may take before the rest of the process has its turn. One socket is read up to 32 times in a row, and
 * two megabytes of tiny events take 50 ms, so a few streams would keep all other requests waiting.
 */
import { threadCpuMs } from '../lib/clock.ts'

const SLICE_MS = 20

class TimeSlice {
  #endsAt: number | undefined
  /** Paused connections, in the order in which they resume. */
  readonly #paused: (() => void)[] = []

  begin(): void {
    if (this.#endsAt !== undefined) return
    this.#endsAt = threadCpuMs() + SLICE_MS
    setImmediate(() => this.#next())
  }

  /** Whoever reads on now keeps others waiting. */
  get isOver(): boolean {
    return this.#endsAt !== undefined && threadCpuMs() >= this.#endsAt
  }

  pausedUntilNext(resume: () => void): void {
    this.#paused.push(resume)
  }

  #next(): void {
    this.#endsAt = undefined
    if (this.#paused.length > 0) this.begin()
    while (!this.isOver && this.#paused.length > 0) this.#paused.shift()?.()
  }
}

/** One for the process, as there is one event loop. */
export const READING = new TimeSlice()
