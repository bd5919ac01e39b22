/**
 * Decides what happens after a failed call to a server at a fixed address: all its caller can do is call again. Part of `decide`, in
 * its own file because a client needs nothing else of it.
 *
 * I1, I2 and I5 are those of `decide.ts`.
 */
import { backoffMs, freeBackoffMs } from './backoff.ts'
import type { Decision, Reason } from './decision.ts'
import { costsNothing } from './free.ts'
import { LIMITS, type RetryPolicy } from './policy.ts'
import type { FaultReport } from './report.ts'
import type { CallSituation } from './situation.ts'

/** The address is fixed, so only another call can help. */
export function decideCall(fault: FaultReport, situation: CallSituation, policy: RetryPolicy): Decision {
  const isAnotherServer = fault.category === 'runner_identity_mismatch' // it will not become the right one
  const mayHelp = fault.next === 'retry' || fault.next === 'resolve' || (fault.next === 'park' && isPassing(fault))
  if (!mayHelp || isAnotherServer) return stop(fault.next === 'park' ? 'needs_action' : 'not_retryable')
  const refused = refusedRetry(fault)
  if (refused !== undefined) return stop(refused)
  if (situation.isPatient === true && policy.patienceMs > 0 && costsNothing(fault, { contentStarted: false }))
    return waitForServer(fault, situation, policy) // I5
  if (situation.attempt >= policy.attemptsMax) return stop('attempts_spent')
  const delayMs = retryDelayMs(fault, situation.attempt, situation.dice, policy)
  if (situation.awayMs + delayMs > policy.waitMsMax) return stop('wait_spent')
  return { action: 'retry', delayMs, because: retryReason(fault) }
}

/** The last attempt comes when patience ends, not after it. */
function waitForServer(fault: FaultReport, { attempt, awayMs, dice }: CallSituation, policy: RetryPolicy): Decision {
  const leftMs = policy.patienceMs - awayMs
  if (leftMs <= 0) return stop('patience_spent')
  const delayMs = Math.max(fault.retryAfterMs ?? 0, Math.min(leftMs, freeBackoffMs(attempt, policy, dice)))
  return { action: 'retry', delayMs, because: retryReason(fault) }
}

// ---- what the other boundaries share with it ----

export function refusedRetry(fault: FaultReport): 'side_effects_unknown' | 'retry_after_too_long' | undefined {
  if (fault.sideEffects === 'unknown') return 'side_effects_unknown' // I1
  return (fault.retryAfterMs ?? 0) > LIMITS.retryAfterMsMax ? 'retry_after_too_long' : undefined
}

export const retryDelayMs = (fault: FaultReport, attempt: number, dice: number, policy: RetryPolicy): number =>
  Math.max(fault.retryAfterMs ?? 0, backoffMs(attempt, policy, dice)) // I2
export const retryReason = (fault: FaultReport): Reason =>
  fault.retryAfterMs === undefined ? 'transient' : 'retry_after'

export const isPassing = (fault: FaultReport): boolean => fault.class === 'transient' || fault.class === 'throttled'
export const stop = (because: Reason): Decision => ({ action: 'stop', because })
