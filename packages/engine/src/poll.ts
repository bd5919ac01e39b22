/** Runs something now and then, and at once when it is asked to: one run at a time, and a request during a run causes one more. */
import type { Clock, Timer } from './clock.ts'

export class Poll {
  readonly #run: () => Promise<void>
  readonly #everyMs: () => number
  readonly #clock: Pick<Clock, 'after'>
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  #isAskedAgain = false
  #isClosed = false

  /** `run` never rejects. `everyMs` is asked before each wait. */
  constructor(everyMs: () => number, run: () => Promise<void>, clock: Pick<Clock, 'after'>) {
    this.#clock = clock
    this.#everyMs = everyMs
    this.#run = run
  }

  start(): void {
    if (this.#timer === undefined) this.#wait()
  }

  /** Runs it as soon as possible. */
  now(): void {
    if (this.#isClosed) return
    this.#isAskedAgain = true
    this.#running ??= this.#runAll()
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Resolves when the run under way has ended; there is no other after it. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.stop()
    await this.#running
  }

  // ---- details ----

  async #runAll(): Promise<void> {
    while (this.#isAskedAgain && !this.#isClosed) {
      this.#isAskedAgain = false
      await this.#run()
    }
    this.#running = undefined // right after the last check: a request in between would be lost
  }

  #wait(): void {
    if (this.#isClosed) return
    const next = (): void => {
      this.now()
      this.#wait()
    }
    this.#timer = this.#clock.after(this.#everyMs(), next).unref()
  }
}
