/** Waiting for something to become true, with a bound that turns a hang into a message. */
import { setTimeout as sleep } from 'node:timers/promises'

/** Looks again and again until it finds something, and returns that. For what sends no event, such as `/proc`. */
export async function eventually<T>(
  what: string,
  look: () => T | Promise<T>,
  withinMs = 60_000,
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
