/**
 * The clocks of one attempt: one for the headers and two for the body. Liveness is any byte, pings included; progress is what
 * the model says. They pause while the reader holds the answer back.
 *
 * All clocks share one timer that checks them when it fires, so a read of the socket costs no timer. The check comes after
 * pending input was read: a process that was suspended (a closed laptop, a busy machine) runs its timers first, and bytes that
 * arrived meanwhile must not count as silence.
 */
import type { Policy } from '@breakfall/faults'
import { TIMER_MS_MAX } from '@breakfall/faults/internal'
import { monotonicMs } from '../lib/clock.ts'

export type AttemptClocks = Pick<Policy, 'connectMs' | 'headersMs' | 'livenessMs' | 'progressMs'>
export type StallClock = 'headers' | 'liveness' | 'progress'

export class StallWatch {
  readonly #clocks: AttemptClocks
  readonly #onStall: (clock: StallClock, afterMs: number) => void
  #timer: NodeJS.Timeout | undefined
  #pending: NodeJS.Immediate | undefined
  #byteAt = 0
  #progressAt = 0
  #isHeld = false

  constructor(clocks: AttemptClocks, onStall: (clock: StallClock, afterMs: number) => void) {
    this.#clocks = clocks
    this.#onStall = onStall
  }

  /** The request was sent; headers are due. */
  awaitHeaders(): void {
    const { headersMs } = this.#clocks
    this.only(headersMs, () => this.#onStall('headers', headersMs))
  }

  /** The body started. */
  awaitBody(): void {
    this.#byteAt = this.#progressAt = monotonicMs()
    this.#check()
  }

  byte(): void {
    this.#byteAt = monotonicMs()
  }

  /** The last bytes said something. */
  progress(): void {
    this.#progressAt = this.#byteAt
  }

  hold(): void {
    this.#isHeld = true
  }

  release(): void {
    this.#isHeld = false
    this.#byteAt = this.#progressAt = monotonicMs()
  }

  /** Replaces the clocks by one wait. */
  only(ms: number, then: () => void): void {
    this.stop()
    const check = (): void => {
      this.#pending = setImmediate(then)
    }
    this.#timer = setTimeout(check, Math.min(Math.ceil(ms), TIMER_MS_MAX))
  }

  stop(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#pending)
  }

  #check(): void {
    const { livenessMs, progressMs } = this.#clocks
    const now = monotonicMs()
    const silentMs = this.#isHeld ? 0 : now - this.#byteAt
    const idleMs = this.#isHeld ? 0 : now - this.#progressAt
    if (silentMs >= livenessMs) this.#onStall('liveness', silentMs)
    else if (idleMs >= progressMs) this.#onStall('progress', idleMs)
    else this.only(Math.min(livenessMs - silentMs, progressMs - idleMs), () => this.#check())
  }
}
