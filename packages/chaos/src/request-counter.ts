/** Names requests: which one this is in order of first appearance, and which attempt at it. Bounded: the longest unseen is forgotten. */
import { digestOf } from './dice.ts'
import type { Asked } from './plan.ts'

export class RequestCounter {
  readonly #seen = new Map<string, { ordinal: number; attempts: number }>()
  readonly #seenMax: number
  #ordinals = 0

  constructor(seenMax = 10_000) {
    this.#seenMax = seenMax
  }

  count(method: string, path: string, body: Uint8Array): Asked {
    const fingerprint = digestOf(method, path, body)
    const entry = this.#seen.get(fingerprint) ?? { ordinal: (this.#ordinals += 1), attempts: 0 }
    entry.attempts += 1
    this.#seen.delete(fingerprint)
    this.#seen.set(fingerprint, entry) // A Map keeps the order of insertion, so that the first one is the longest unseen.
    if (this.#seen.size > this.#seenMax) this.#seen.delete(this.#seen.keys().next().value ?? '')
    return { ordinal: entry.ordinal, fingerprint, attempt: entry.attempts }
  }
}
