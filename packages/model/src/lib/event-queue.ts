/**
 * A queue between a producer of events and the one consumer that iterates them, in order, each event once. The producer is
 * called when the consumer falls behind, catches up, or leaves.
 */

export type QueueListener = {
  readonly onFull: () => void
  readonly onRoom: () => void
  /** The consumer broke out of its loop. */
  readonly onLeft: () => void
}

const FULL_AT = 1_024 // events; a burst from one read of a socket is a few hundred
const ROOM_AT = 128
const TAKEN_MAX = 1_024 // empty places before the first event that waits

export class EventQueue<T extends NonNullable<unknown>> implements AsyncIterableIterator<T> {
  readonly #listener: QueueListener
  /** Taken events leave their places empty, and places are given back in blocks. */
  #items: (T | undefined)[] = []
  #head = 0
  #isClosed = false
  #isFull = false
  /** Calls of `next` that wait for an event, in order. */
  readonly #waiting: ((result: IteratorResult<T, undefined>) => void)[] = []

  constructor(listener: QueueListener) {
    this.#listener = listener
  }

  /** The event pushed last, if the consumer has not taken it yet. */
  get last(): T | undefined {
    return this.#items[this.#items.length - 1]
  }

  /** The consumer is behind: a producer that starts now starts paused. */
  get isFull(): boolean {
    return this.#isFull
  }

  push(item: T): void {
    if (this.#isClosed) return
    const waiting = this.#waiting.shift()
    if (waiting !== undefined) {
      waiting({ done: false, value: item })
      return
    }
    this.#items.push(item)
    if (this.#items.length - this.#head < FULL_AT || this.#isFull) return
    this.#isFull = true
    this.#listener.onFull()
  }

  /** No more events will come. Queued ones can still be taken. */
  close(): void {
    this.#isClosed = true
    for (const waiting of this.#waiting.splice(0)) waiting({ done: true, value: undefined })
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const item = this.#items[this.#head]
    if (item !== undefined) return Promise.resolve({ done: false, value: this.#take(item) })
    if (this.#isClosed) return Promise.resolve({ done: true, value: undefined })
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
    })
  }

  return(): Promise<IteratorResult<T, undefined>> {
    if (!this.#isClosed) {
      this.close()
      this.#listener.onLeft()
    }
    this.#items = []
    this.#head = 0
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #take(item: T): T {
    this.#items[this.#head] = undefined
    this.#head += 1
    if (this.#head === this.#items.length || this.#head >= TAKEN_MAX) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    if (this.#isFull && this.#items.length - this.#head <= ROOM_AT) {
      this.#isFull = false
      this.#listener.onRoom()
    }
    return item
  }
}
