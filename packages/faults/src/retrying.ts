/** Calls something until it succeeds or `decide` says to stop, for callers at any boundary. */
import { classify } from './classify.ts'
import { decide } from './decide.ts'
import type { RetryPolicy } from './policy.ts'
import { type Failures, type LoopOptions, retryLoop, type RetryOutcome, valueOf } from './retry-loop.ts'
import type { Situation } from './situation.ts'

export type RetryOptions = LoopOptions & {
  readonly policy: RetryPolicy
  /** What the boundary knows. Default: the situation of a call to a fixed address. */
  readonly situation?: ((failures: Failures) => Situation) | undefined
}

/** Throws the last fault, with the reason for stopping in `stopped`. */
export async function retrying<T>(act: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  return valueOf(await retryOutcome(act, options))
}

/** For callers that can park: the final decision is a value. */
export function retryOutcome<T>(act: (attempt: number) => Promise<T>, options: RetryOptions): Promise<RetryOutcome<T>> {
  const { policy, situation = callSituation } = options
  return retryLoop(act, options, {
    decide: (fault, failures, now) => decide(fault.report, situation(failures), policy, now),
    ended: (thrown, boundary, signal) => classify(thrown, { boundary, signal }),
  })
}

// ---- details ----

const callSituation = (failures: Failures): Situation => ({ at: 'call', ...failures })
