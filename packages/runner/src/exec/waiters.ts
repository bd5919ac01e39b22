/** Callers that wait for a change. They check the state themselves afterwards, so a late caller misses nothing. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `notify`, or when `signal` aborts. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      if (signal.aborted) done()
      else {
        this.#waiting.add(done)
        signal.addEventListener('abort', done)
      }
    })
  }

  notify(): void {
    for (const done of this.#waiting) done()
  }
}
