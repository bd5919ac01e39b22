/**
 * The clocks of one attempt: for the headers, and two for the body. Liveness is any byte, pings included; progress is what
 * the model says. They stand still while the reader holds the answer back.
 *
 * One timer for all of them, which looks when it fires: a read of the socket costs no timer. It looks after pending
 * input was read: a process that was stopped for a while (a closed laptop, a busy machine) wakes to timers first, and bytes
 * that have long been there must not count as silence.
 */
import { type Policy, TIMER_MS_MAX } from '@breakfall/faults'
import { monotonicMs } from '../clock.ts'

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

  /** The request is on its way: headers are due. */
  awaitHeaders(): void {
    const { headersMs } = this.#clocks
    this.only(headersMs, () => this.#onStall('headers', headersMs))
  }

  /** The body has begun. */
  awaitBody(): void {
    this.#byteAt = this.#progressAt = monotonicMs()
    this.#look()
  }

  byte(): void {
    this.#byteAt = monotonicMs()
  }

  /** The last byte said something. */
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

  /** Another wait takes the place of the clocks. */
  only(ms: number, then: () => void): void {
    this.stop()
    const look = (): void => {
      this.#pending = setImmediate(then)
    }
    this.#timer = setTimeout(look, Math.min(Math.ceil(ms), TIMER_MS_MAX))
  }

  stop(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#pending)
  }

  #look(): void {
    const { livenessMs, progressMs } = this.#clocks
    const now = monotonicMs()
    const silentMs = this.#isHeld ? 0 : now - this.#byteAt
    const idleMs = this.#isHeld ? 0 : now - this.#progressAt
    if (silentMs >= livenessMs) this.#onStall('liveness', silentMs)
    else if (idleMs >= progressMs) this.#onStall('progress', idleMs)
    else this.only(Math.min(livenessMs - silentMs, progressMs - idleMs), () => this.#look())
  }
}
