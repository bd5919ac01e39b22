/** Ends a runner that is no longer needed: no call and no exec for a while, or its state folder is gone and no client can find it. */
import type { Clock } from '../lib/clock.ts'

export class IdleExit {
  readonly #afterMs: number | null
  readonly #clock: Clock
  readonly #isBusy: () => boolean
  readonly #isGone: () => boolean
  #lastUseMs: number
  #timer: NodeJS.Timeout | undefined

  /** `afterMs` null: never. */
  constructor(afterMs: number | null, clock: Clock, when: { isBusy: () => boolean; isGone: () => boolean }) {
    this.#afterMs = afterMs
    this.#clock = clock
    this.#isBusy = when.isBusy
    this.#isGone = when.isGone
    this.#lastUseMs = clock.monotonicMs()
  }

  /** The runner is in use now. */
  touch(): void {
    this.#lastUseMs = this.#clock.monotonicMs()
  }

  start(onIdle: () => void): void {
    const afterMs = this.#afterMs
    if (afterMs === null) return
    this.#timer = setInterval(
      () => {
        if (this.#isGone()) onIdle()
        else if (this.#isBusy()) this.touch()
        else if (this.#clock.monotonicMs() - this.#lastUseMs >= afterMs) onIdle()
      },
      Math.max(20, Math.min(5_000, afterMs / 4)),
    )
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
