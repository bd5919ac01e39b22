/** The signal of one call: fires with the caller's signal, at the deadline, or when the consumer leaves. */
import { Fault } from '@breakfall/faults'
import { TIMER_MS_MAX } from '@breakfall/faults/internal'

export class Lifetime {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #deadlineAt: number | null
  readonly #now: () => number
  #timer: NodeJS.Timeout | undefined

  constructor(outer: AbortSignal | undefined, deadlineAt: number | null, now: () => number) {
    this.#outer = outer
    this.#deadlineAt = deadlineAt
    this.#now = now
    if (outer?.aborted === true) this.#onOuter()
    else outer?.addEventListener('abort', this.#onOuter)
    this.#watch()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The consumer left. */
  end(): void {
    this.#controller.abort(new Error('the consumer left'))
    this.dispose()
  }

  dispose(): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#onOuter)
  }

  readonly #onOuter = (): void => {
    this.#controller.abort(this.#outer?.reason)
  }

  #watch(): void {
    if (this.#deadlineAt === null || this.signal.aborted) return
    const leftMs = this.#deadlineAt - this.#now()
    if (leftMs <= 0) {
      // Our own fault as the reason lets the classifier tell it from a user's cancel.
      this.#controller.abort(new Fault('deadline_exceeded', { boundary: 'model', errorRaw: 'the deadline has passed' }))
      return
    }
    this.#timer = setTimeout(() => this.#watch(), Math.min(leftMs, TIMER_MS_MAX))
  }
}
