/** Does something again for as long as `decide` says that it is worth it. The one loop of tries in this package. */
import { setTimeout as sleep } from 'node:timers/promises'
import { decide, type Fault, faultFrom, type RetryPolicy } from '@breakfall/faults'

export type Patience = {
  readonly policy: RetryPolicy
  /** What went wrong, where that is not a Fault already. */
  readonly faultOf?: ((thrown: unknown) => Fault) | undefined
  /** Before each further try, after the wait. */
  readonly before?: ((fault: Fault) => Promise<void>) | undefined
}

/** Throws the last fault, with the reason why trying stopped. */
export async function patiently<T>(
  act: () => Promise<T>,
  { policy, faultOf = faultFrom, before }: Patience,
): Promise<T> {
  let waitedMs = 0
  for (let attempt = 1; ; attempt++) {
    try {
      return await act()
    } catch (thrown) {
      const fault = faultOf(thrown)
      const delayMs = nextDelayMs(fault, attempt, waitedMs, policy)
      waitedMs += delayMs
      await sleep(delayMs)
      await before?.(fault)
    }
  }
}

/** How long to wait before the next try. Throws the fault where there is none. */
export function nextDelayMs(fault: Fault, attempt: number, waitedMs: number, policy: RetryPolicy): number {
  const situation = { at: 'call', attempt, awayMs: waitedMs, dice: Math.random() } as const
  const decision = decide(fault.report, situation, policy, Date.now())
  if (decision.action === 'retry') return decision.delayMs
  throw fault.with({ stopped: decision.because })
}
