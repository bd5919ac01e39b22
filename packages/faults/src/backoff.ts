/** How long to wait before the next attempt or probe. Pure: the dice come in as an argument. */
import { LIMITS, type RetryPolicy } from './policy.ts'

/** Full jitter, between zero and a ceiling that doubles: clients that failed together do not come back together. */
export function backoffMs(attempt: number, policy: Pick<RetryPolicy, 'backoffMs'>, dice: number): number {
  const ceiling = Math.min(LIMITS.backoffMsMax, policy.backoffMs * 2 ** Math.min(30, Math.max(0, attempt - 1)))
  return Math.round(clamp01(dice) * ceiling)
}

/** Before a retry that cost nothing: soon, to notice a server that comes back, but never at once. */
export function freeBackoffMs(failure: number, policy: Pick<RetryPolicy, 'backoffMs'>, dice: number): number {
  const doubled = 2 ** Math.min(30, Math.max(0, failure - 1))
  const least = Math.min(LIMITS.freeBackoffMsLeast, LIMITS.freeBackoffMsFirst * doubled)
  const ceiling = Math.max(least, Math.min(LIMITS.freeBackoffMsMax, policy.backoffMs * doubled))
  return Math.round(least + clamp01(dice) * (ceiling - least))
}

/** When to check whether a parked turn can resume: after 5 s, 10 s, … 60 s, each give or take a fifth. */
export function probeDelayMs(probe: number, dice: number): number {
  const base = Math.min(LIMITS.probeMsMax, LIMITS.probeMsFirst * 2 ** Math.min(30, Math.max(0, probe)))
  return Math.round(base * (0.8 + 0.4 * clamp01(dice)))
}

// ---- details ----

const clamp01 = (dice: number): number => (dice >= 0 && dice <= 1 ? dice : 0.5)
