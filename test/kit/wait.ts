/** Waiting for something to become true, with a bound that turns a hang into a message. */
import { setTimeout as sleep } from 'node:timers/promises'

/** For tests that start processes: generous, because a loaded machine is slow, not broken. Only a hang reaches it. */
export const LIMIT = { timeout: 200_000 }

/** How long a test waits for one event. Only a hang reaches it. */
export const WAIT_MS = 120_000

/** Looks again and again until it finds something, and returns that. For what sends no event, such as `/proc`. */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  withinMs = WAIT_MS,
): Promise<Exclude<T, false | undefined | null | 0 | ''>> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = await look()
    if (isFound(found)) return found
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`)
    await sleep(20)
  }
}

function isFound<T>(value: T): value is Exclude<T, false | undefined | null | 0 | ''> {
  return Boolean(value)
}
