/** The runner's two bounded waits: polling for what no event reports, and a promise with a time limit. */
import { setTimeout as sleep } from 'node:timers/promises'

export type PollLimits = {
  readonly everyMs: number
  readonly forMs: number
  /** False if the process may end meanwhile. */
  readonly ref?: boolean
}

/**
 * Asks until `probe` returns a value, and at least once; undefined when the time is up. The time is counted in steps, not
 * by a clock: a machine that was suspended still asks as often. `probe` learns how long it has been so far.
 */
export async function pollUntil<T>(
  probe: (waitedMs: number) => T | undefined,
  { everyMs, forMs, ref = true }: PollLimits,
): Promise<T | undefined> {
  for (let waitedMs = 0; ; waitedMs += everyMs) {
    const found = probe(waitedMs)
    if (found !== undefined || waitedMs >= forMs) return found
    await sleep(everyMs, undefined, { ref })
  }
}

/** Resolves with the promise, or with undefined once `ms` have passed. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const decided = new AbortController()
  const timeout = sleep(ms, undefined, { signal: decided.signal }).catch(() => undefined) // aborted: the promise was faster
  try {
    return await Promise.race([promise, timeout])
  } finally {
    decided.abort()
  }
}
