/**
 * Starting a process stops the world for a few milliseconds. The queue starts one per turn of the event loop, and only so
 * many at once, so that whoever asks for health in between is answered.
 */
export class SpawnQueue {
  readonly #max: number
  readonly #waiting: (() => void)[] = []
  #active = 0
  #isPumping = false

  constructor(max: number) {
    this.#max = max
  }

  get length(): number {
    return this.#waiting.length
  }

  /** `start` gets a function to call when the start is through, whatever came of it. */
  add(start: (done: () => void) => void): void {
    this.#waiting.push(() => {
      let isDone = false
      start(() => {
        if (isDone) return
        isDone = true
        this.#active -= 1
        this.#pump()
      })
    })
    this.#pump()
  }

  #pump(): void {
    if (this.#isPumping || this.#waiting.length === 0 || this.#active >= this.#max) return
    this.#isPumping = true
    this.#active += 1
    const start = this.#waiting.shift() as () => void
    start()
    this.#isPumping = false
    if (this.#waiting.length > 0) setImmediate(() => this.#pump())
  }
}
