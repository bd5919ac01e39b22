/**
 * Starting a process stops the world for a few milliseconds, and so does making its files. One such piece of work is done
 * per turn of the event loop, so that whoever asks for health in between is answered, and only so many commands are being
 * started at once.
 */

/** Lets one pass per turn of the event loop; the first one at once. */
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
  readonly #waiting: ((through: () => void) => void)[] = []
  #active = 0

  constructor(max: number) {
    this.#max = max
  }

  get length(): number {
    return this.#waiting.length
  }

  /** `start` gets a function to call when the start is through, whatever came of it. */
  add(start: (through: () => void) => void): void {
    this.#waiting.push(start)
    this.#pump()
  }

  #pump(): void {
    while (this.#active < this.#max) {
      const start = this.#waiting.shift()
      if (start === undefined) return
      this.#active += 1
      let isThrough = false
      const through = (): void => {
        if (isThrough) return
        isThrough = true
        this.#active -= 1
        this.#pump()
      }
      void this.turnstile.pass().then(() => start(through))
    }
  }
}
