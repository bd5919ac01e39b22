/** Those who wait for something to happen. They look for themselves what it was, so nobody can miss it by coming late. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `notify`, or when `signal` says so. */
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
