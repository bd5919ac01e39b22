/**
 * Ends the waits of a session's loop when something has changed that a waiting turn may care about.
 *
 * I1  No wake is lost: wakes are counted, and a wake before the wait ends it at once. A loop that looks at the state and then waits
 *     sees every change that came with a wake.
 */
export class Wakes {
  #count = 0
  #seen = 0
  /** Ends the wait under way. There is one at most: only the session's loop waits. */
  #end: (() => void) | undefined

  wake(): void {
    this.#count += 1
    this.#end?.()
  }

  /** The state is looked at now: this sees what every wake until now was about. */
  look(): void {
    this.#seen = this.#count
  }

  /**
   * Waits with work that only waits, such as a sleep or a probe. `woken` if a wake came since the last look or wait, or comes before
   * the work is done; then the work's signal is aborted.
   */
  async unlessWoken<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | 'woken'> {
    const over = new AbortController()
    const woken = new Promise<void>((resolve) => {
      this.#end = () => {
        over.abort()
        resolve()
      }
    })
    try {
      const done = this.#isWoken()
        ? undefined
        : await Promise.race([work(over.signal).then((value) => ({ value })), woken])
      return done === undefined || this.#isWoken() ? 'woken' : done.value // I1: it may be done and woken in the same moment
    } finally {
      this.#end = undefined
      this.look()
    }
  }

  #isWoken(): boolean {
    return this.#count !== this.#seen
  }
}
