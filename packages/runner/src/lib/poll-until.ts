/** Polling for what no event reports. */
import { setTimeout as sleep } from 'node:timers/promises'

export type PollLimits = {
  /** A list: one step each, the last one for all further steps. */
  readonly everyMs: number | readonly number[]
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
  const steps = typeof everyMs === 'number' ? [everyMs] : everyMs
  for (let waitedMs = 0, step = 0; ; step += 1) {
    const found = probe(waitedMs)
    if (found !== undefined || waitedMs >= forMs) return found
    const stepMs = steps[Math.min(step, steps.length - 1)] ?? 1
    await sleep(stepMs, undefined, { ref })
    waitedMs += stepMs
  }
}
