/**
 * Ctrl-C and SIGTERM during a run: the first cancels in order, the second leaves at once. Listens from the run's first moment,
 * so that whatever was started by then is put away as well.
 */
import { EXIT_CODES, Fault, faultFrom } from '@breakfall/faults'
import type { Output } from './output.ts'

export class Interrupt implements Disposable {
  readonly #out: Output
  #isAsked = false
  #cancel: (() => Promise<unknown>) | undefined

  constructor(out: Output) {
    this.#out = out
    process.on('SIGINT', this.#onSignal)
    process.on('SIGTERM', this.#onSignal)
  }

  /** Throws where somebody has asked to stop before there was anything to cancel. */
  throwIfAsked(): void {
    if (this.#isAsked) throw cancelled()
  }

  /** There is something to cancel now; it is cancelled at once where that was asked for already. */
  reaches(cancel: () => Promise<unknown>): void {
    this.#cancel = cancel
    if (this.#isAsked) this.#run()
  }

  [Symbol.dispose](): void {
    process.off('SIGINT', this.#onSignal)
    process.off('SIGTERM', this.#onSignal)
  }

  readonly #onSignal = (): void => {
    if (this.#isAsked) {
      this.#out.rest()
      if (this.#out.json) this.#out.result({ outcome: 'cancelled', fault: cancelled().report })
      process.exit(EXIT_CODES.cancelled)
    }
    this.#isAsked = true
    this.#out.say(this.#out.styleErr('yellow', '\ncancelling… (again to leave at once)'))
    this.#run()
  }

  #run(): void {
    this.#cancel?.().catch((error: unknown) =>
      this.#out.say(`the cancel did not reach the daemon: ${faultFrom(error).error}`),
    )
  }
}

const cancelled = (): Fault => new Fault('cancelled', { facts: { name: 'user' } })
