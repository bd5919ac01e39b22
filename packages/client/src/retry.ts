/** Repeats a request while `decide` says that it is worth it. */
import { decide, type Fault, faultFrom, type RetryPolicy } from '@breakfall/faults'
import type { Surroundings } from './clock.ts'

export type Retrying = {
  readonly policy: RetryPolicy
  readonly surroundings: Surroundings
  readonly signal?: AbortSignal | undefined
  /** Runs when an attempt fails, before the wait. */
  readonly onFailure?: ((attempt: number) => void) | undefined
  /** Runs after the wait, before the next attempt. */
  readonly beforeRetry: (fault: Fault) => Promise<void>
}

/** Throws the last fault, with the reason why it stopped. */
export async function retrying<T>(
  act: () => Promise<T>,
  { policy, surroundings, signal, onFailure, beforeRetry }: Retrying,
): Promise<T> {
  const from = surroundings.now()
  for (let attempt = 1; ; attempt++) {
    try {
      return await act()
    } catch (thrown) {
      const fault = faultFrom(thrown)
      const now = surroundings.now()
      const situation = { at: 'call', attempt, awayMs: now - from, dice: surroundings.random() } as const
      const decision = decide(fault.report, situation, policy, now)
      if (decision.action !== 'retry') throw fault.with({ stopped: decision.because })
      onFailure?.(attempt)
      await surroundings.sleep(decision.delayMs, signal)
      await beforeRetry(fault)
    }
  }
}
