/**
 * Starting a process blocks the event loop for a few milliseconds, and so does making its files. So only one of these runs
 * per turn of the event loop, health checks are served in between, and a limited number of commands start at once.
 */

/** Lets one caller pass per turn of the event loop; the first one at once. */
export class Turnstile {
  readonly #waiting: (() => void)[] = []
  #isBusy = false

  pass(): Promise<void> {
    if (this.#isBusy) return new Promise((resolve) => void this.#waiting.push(resolve))
    this.#isBusy = true
    setImmediate(() => this.#next())
    return Promise.resolve()
  }

  #next(): void {
    const pass = this.#waiting.shift()
    if (pass === undefined) {
      this.#isBusy = false
      return
    }
    setImmediate(() => this.#next())
    pass()
  }
}

export class SpawnQueue {
  readonly turnstile = new Turnstile()
  readonly #max: number
  readonly #waiting: ((free: () => void) => void)[] = []
  #active = 0

  constructor(max: number) {
    this.#max = max
  }

  get length(): number {
    return this.#waiting.length
  }

  /** `start` gets a function to call when the start has succeeded or failed. */
  add(start: (free: () => void) => void): void {
    this.#waiting.push(start)
    this.#startNext()
  }

  #startNext(): void {
    while (this.#active < this.#max) {
      const start = this.#waiting.shift()
      if (start === undefined) return
      this.#active += 1
      let isFree = false
      const free = (): void => {
        if (isFree) return
        isFree = true
        this.#active -= 1
        this.#startNext()
      }
      void this.turnstile.pass().then(() => start(free))
    }
  }
}
