/**
 * Sends the events of a child to any number of listeners, as calls or as an async iterator.
 *
 * I1  A listener that throws does not affect the others.
 * I2  A slow reader costs QUEUE_MAX events of memory at most. It learns how many events it missed.
 */
import { callHook } from './hooks.ts'

export type Dropped = { readonly type: 'dropped'; readonly count: number }

const QUEUE_MAX = 1_000 // a crash is about six events

export class EventStream<Event> {
  readonly #listeners = new Set<(event: Event) => void>()

  get size(): number {
    return this.#listeners.size
  }

  emit(event: Event): void {
    const current = Array.from(this.#listeners) // a listener added during this event gets the next one
    for (const listener of current) {
      callHook(() => listener(event)) // I1
    }
  }

  /** Returns a function that removes the listener. */
  on(listener: (event: Event) => void): () => void {
    const own = (event: Event): void => listener(event) // the same function may be added twice
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  /** Events from the call on, not from the first read, until the reader stops or the signal fires. */
  read(signal?: AbortSignal): AsyncIterableIterator<Event | Dropped> {
    const queue: Event[] = []
    let dropped = 0
    let wake: (() => void) | undefined
    let over = signal?.aborted === true
    const off = this.on((event) => {
      if (queue.length >= QUEUE_MAX) {
        queue.shift() // I2
        dropped += 1
      }
      queue.push(event)
      wake?.()
    })
    const finish = (): void => {
      over = true
      off()
      signal?.removeEventListener('abort', finish)
      wake?.()
    }
    if (over) off()
    else signal?.addEventListener('abort', finish, { once: true })
    const step = async (): Promise<IteratorResult<Event | Dropped, undefined>> => {
      for (;;) {
        if (dropped > 0) {
          const count = dropped
          dropped = 0
          return { done: false, value: { type: 'dropped', count } }
        }
        const event = queue.shift()
        if (event !== undefined) return { done: false, value: event }
        if (over) return { done: true, value: undefined }
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
    let last: Promise<unknown> = Promise.resolve()
    const next = async (): Promise<IteratorResult<Event | Dropped, undefined>> => {
      const mine = last.then(step) // concurrent calls get their events in order
      last = mine
      return mine
    }
    const iterator: AsyncIterableIterator<Event | Dropped> = {
      next,
      return: async () => {
        finish()
        return Promise.resolve({ done: true as const, value: undefined })
      },
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }
}
