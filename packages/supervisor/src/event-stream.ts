/**
 * What happens to a child, told to any number of listeners, as calls or as an async stream.
 *
 * I1  A listener that throws hurts nobody but itself.
 * I2  A slow reader costs QUEUE_MAX events and no more; what it missed is told as a number.
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
    const now = Array.from(this.#listeners) // who is added by a listener hears the next event
    for (const listener of now) {
      callHook(() => listener(event)) // I1
    }
  }

  /** Returns the way out. */
  on(listener: (event: Event) => void): () => void {
    const own = (event: Event): void => listener(event) // the same function may listen twice
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  /** From now on, until the reader breaks off or the signal fires. Listening begins at the call, not at the first read. */
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
      const mine = last.then(step) // whoever asks for several at once gets them one after the other
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
