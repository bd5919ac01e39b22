/** What a client needs from its surroundings: fetch, the clock, dice and keys. Tests and unusual hosts bring their own. */

export type Surroundings = {
  readonly fetch: typeof globalThis.fetch
  /** Epoch milliseconds. */
  readonly now: () => number
  /** From 0 to 1: spreads the waits of many clients. */
  readonly random: () => number
  /** Rejects with the signal's reason when it aborts. */
  readonly sleep: (ms: number, signal: AbortSignal | undefined) => Promise<void>
  /** A new idempotency key. */
  readonly newKey: () => string
}

export const SURROUNDINGS: Surroundings = {
  fetch: (...request) => globalThis.fetch(...request),
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const onAbort = (): void => {
        clearTimeout(timer)
        reject(signal?.reason)
      }
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      }, ms)
      signal?.addEventListener('abort', onAbort, { once: true })
    }),
  newKey: () => globalThis.crypto.randomUUID(),
}
