/** Repeats a reading call while the runner is away for a moment. Calls that change something are never repeated here. */
import { setTimeout as sleep } from 'node:timers/promises'
import { classify, type Fault, isFault, LIMITS } from '@breakfall/faults'

export async function retried<T>(
  call: () => Promise<T>,
  signal: AbortSignal | undefined,
  dice: () => number,
): Promise<T> {
  const beganMs = performance.now()
  for (let failures = 1; ; failures += 1) {
    try {
      return await call()
    } catch (error) {
      if (
        !isFault(error) ||
        !isPassing(error) ||
        failures >= LIMITS.resolvesMax ||
        performance.now() - beganMs > LIMITS.resolveMsMax
      )
        throw error
      await pause(Math.min(4_000, 50 * 2 ** (failures - 1)) * (0.5 + dice() / 2), signal)
    }
  }
}

/** Gone for a moment, as far as one can tell. Another runner in its place does not pass: the address is wrong. */
export function isPassing(fault: Fault): boolean {
  const { next } = fault.report
  return (next === 'resolve' || next === 'retry') && fault.category !== 'runner_identity_mismatch'
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal })
  } catch (error) {
    throw classify(error, { boundary: 'runner', signal })
  }
}
