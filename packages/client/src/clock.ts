/** What a client needs from its surroundings: fetch, the clock, dice and keys. Tests and unusual hosts bring their own. */
import { sleep } from '@breakfall/faults/caller'

export type Surroundings = {
  readonly fetch: typeof globalThis.fetch
  /** Epoch milliseconds. */
  readonly now: () => number
  /** From 0 to 1: spreads the waits of many clients. */
  readonly random: () => number
  /** Resolves at once when the signal aborts. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** A new idempotency key. */
  readonly newKey: () => string
}

export const SURROUNDINGS: Surroundings = {
  fetch: (...request) => globalThis.fetch(...request),
  now: () => Date.now(),
  random: () => Math.random(),
  sleep,
  newKey: () => globalThis.crypto.randomUUID(),
}
