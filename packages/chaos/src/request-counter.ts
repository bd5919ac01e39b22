/** Numbers requests in order of first appearance, and the attempts at each. Bounded: drops the least recently seen one. */
import { digestOf } from './random.ts'
import type { CountedRequest } from './plan.ts'

export class RequestCounter {
  readonly #seen = new Map<string, { ordinal: number; attempts: number }>()
  readonly #seenMax: number
  #ordinals = 0

  constructor(seenMax = 10_000) {
    this.#seenMax = seenMax
  }

  count(method: string, path: string, body: Uint8Array): CountedRequest {
    const fingerprint = digestOf(method, path, body)
    const entry = this.#seen.get(fingerprint) ?? { ordinal: (this.#ordinals += 1), attempts: 0 }
    entry.attempts += 1
    this.#seen.delete(fingerprint)
    this.#seen.set(fingerprint, entry) // a Map keeps insertion order, so the first entry is the least recently seen
    if (this.#seen.size > this.#seenMax) this.#seen.delete(this.#seen.keys().next().value ?? '')
    return { ordinal: entry.ordinal, fingerprint, attempt: entry.attempts }
  }
}
