/**
 * Decides what happens after a failure. Pure: clock and dice come in as arguments. The one place in the system that
 * decides about trying again.
 *
 * I1  What may have had an effect is never repeated.
 * I2  A wait that the other side asked for is never shortened; one too long to sleep through parks.
 * I3  Every answer names its reason, out of one closed list.
 * I4  What lies with one place only is no reason to stop, or to wait long, while there is another model in the list.
 */
import { LIMITS, type RetryPolicy } from './policy.ts'
import type { FaultReport } from './report.ts'
import type { Boundary, FaultCategory, FAULTS } from './table.ts'

export type Situation = {
  /** Tries made at this step, the failed one included. */
  readonly attempt: number
  /** Failures in the whole turn, this one included. */
  readonly failures: number
  /** Milliseconds spent waiting between tries, in the whole turn. */
  readonly waitedMs: number
  /** Between 0 and 1. */
  readonly dice: number
  /** False where nobody could wake the turn again, as in a library call. */
  readonly canPark: boolean
  readonly parks?: number | undefined
  readonly parkedMs?: number | undefined
  readonly compacted?: boolean | undefined
  readonly restarts?: number | undefined
  /** The tries at this step failed in different ways, so that they do not show a habit of the model. */
  readonly isMixed?: boolean | undefined
  /** Look-ups of the runner's address made for this call, and the time since the first. */
  readonly resolves?: number | undefined
  readonly resolvingMs?: number | undefined
  /** Models left in the fallback list. */
  readonly fallbacks?: number | undefined
  /** When everything must be over, in epoch milliseconds. */
  readonly deadlineAt?: number | null | undefined
}

export const REASONS = [
  // why it goes on
  'transient',
  'retry_after',
  'moved',
  'crashed',
  'context_too_long',
  'next_model',
  // why it waits
  'retry_after_too_long',
  'needs_action',
  'waiting_for_recovery',
  // why it stopped (or, where a turn can park, why it is no longer tried at once)
  'not_retryable',
  'cancelled',
  'deadline_passed',
  'side_effects_unknown',
  'attempts_spent',
  'failures_spent',
  'wait_spent',
  'resolves_spent',
  'restarts_spent',
  'already_compacted',
  'parking_off',
  'parks_spent',
  'park_time_spent',
] as const
export type Reason = (typeof REASONS)[number]

export type Decision =
  | {
      readonly action: 'retry' | 'resolve' | 'restart' | 'compact' | 'fallback'
      readonly delayMs: number
      readonly because: Reason
    }
  | { readonly action: 'park'; readonly resumeAt: number | null; readonly because: Reason }
  | { readonly action: 'stop'; readonly because: Reason }

export function decide(fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  if (fault.class === 'cancelled') return stop('cancelled')
  if (isPast(situation, now)) return stop('deadline_passed')
  const here = decideHere(fault, situation, policy, now)
  const isEnd = here.action === 'stop' || here.action === 'park'
  return isEnd && mayAskElsewhere(fault, situation, policy) ? NEXT_MODEL : here // I4
}

type CategoryAt<B extends Boundary> = {
  [C in FaultCategory]: (typeof FAULTS)[C]['boundary'] extends B ? C : never
}[FaultCategory]

/**
 * Whether the next model of the list may do better. Total over what can go wrong with a model or with the child that
 * serves one, so that a new row does not compile until it has decided.
 */
export const ELSEWHERE: Readonly<Record<CategoryAt<'model' | 'process'>, boolean>> = {
  // It lies with one server, connection, account or name:
  model_unreachable: true,
  model_stream_interrupted: true,
  model_stream_stalled: true,
  model_stream_incomplete: true,
  tool_call_truncated: true,
  model_rate_limited: true,
  model_quota_exhausted: true,
  model_overloaded: true,
  model_server_error: true,
  model_auth_failed: true,
  model_not_found: true,
  model_endpoint_invalid: true,
  network_down: true, // the way to one host is down; the next may be on this machine
  process_failed: true,
  process_start_failed: true,
  process_hung: true,
  crash_loop: true,
  // It lies with the request, which is the same everywhere:
  model_bad_request: false,
  model_context_overflow: false, // the cure is to compact
  model_content_filtered: false, // asking around until somebody answers is not ours to do
}

/** Full jitter: anywhere between nothing and the doubled ceiling, so that a crowd does not come back together. */
export function backoffMs(attempt: number, policy: Pick<RetryPolicy, 'backoffMs'>, dice: number): number {
  const ceiling = Math.min(LIMITS.backoffMsMax, policy.backoffMs * 2 ** Math.min(30, Math.max(0, attempt - 1)))
  return Math.round(clamp01(dice) * ceiling)
}

/** When to look again whether a parked turn can go on: 5 s, 10 s, … 60 s, each spread by a fifth either way. */
export function probeDelayMs(probe: number, dice: number): number {
  const base = Math.min(LIMITS.probeMsMax, LIMITS.probeMsFirst * 2 ** Math.min(30, Math.max(0, probe)))
  return Math.round(base * (0.8 + 0.4 * clamp01(dice)))
}

// ---- details, in the order they are used above ----

/** As if there were no other model. */
function decideHere(fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  switch (fault.next) {
    case 'never':
      return stop('not_retryable')
    case 'compact':
      return compact(fault, situation)
    case 'restart':
      return restart(situation, policy, now) // a child is started anew; the request it failed is not repeated by that
    case 'resolve':
      return resolve(fault, situation, policy, now)
    case 'retry':
      return retry(fault, situation, policy, now)
    case 'park':
      return parkFirst(fault, situation, policy, now)
  }
}

function mayAskElsewhere(fault: FaultReport, situation: Situation, policy: RetryPolicy): boolean {
  if ((situation.fallbacks ?? 0) <= 0 || situation.failures >= policy.failuresMax) return false
  if (fault.sideEffects === 'unknown') return false // I1
  return (ELSEWHERE as Partial<Record<FaultCategory, boolean>>)[fault.category] === true
}

const NEXT_MODEL: Decision = { action: 'fallback', delayMs: 0, because: 'next_model' }

function compact(fault: FaultReport, situation: Situation): Decision {
  if (fault.sideEffects === 'unknown') return stop('side_effects_unknown') // I1
  if (situation.compacted === true) return stop('already_compacted')
  return { action: 'compact', delayMs: 0, because: 'context_too_long' }
}

function restart(situation: Situation, policy: RetryPolicy, now: number): Decision {
  const restarts = situation.restarts ?? 0
  if (restarts >= LIMITS.restartsMax) return stop('restarts_spent')
  if (situation.failures >= policy.failuresMax) return stop('failures_spent')
  const delayMs = backoffMs(restarts + 1, policy, situation.dice)
  if (situation.waitedMs + delayMs > policy.waitMsMax) return stop('wait_spent')
  return within(situation, now, { action: 'restart', delayMs, because: 'crashed' })
}

function resolve(fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  if (fault.sideEffects === 'unknown') return stop('side_effects_unknown') // I1
  const tries = situation.resolves ?? 0
  if (tries >= LIMITS.resolvesMax || (situation.resolvingMs ?? 0) >= LIMITS.resolveMsMax) {
    return spent('resolves_spent', fault, situation, policy, now)
  }
  if (situation.failures >= policy.failuresMax) return spent('failures_spent', fault, situation, policy, now)
  // The first look-up is at once: a runner that moved is usually up at its new place already.
  // The last one is made when the time is up, not after a pause that goes beyond it.
  const leftMs = LIMITS.resolveMsMax - (situation.resolvingMs ?? 0)
  const delayMs = tries === 0 ? 0 : Math.min(leftMs, backoffMs(tries, policy, situation.dice))
  if (situation.waitedMs + delayMs > policy.waitMsMax) return spent('wait_spent', fault, situation, policy, now)
  return within(situation, now, { action: 'resolve', delayMs, because: 'moved' })
}

function retry(fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  if (fault.sideEffects === 'unknown') return stop('side_effects_unknown') // I1
  if ((fault.retryAfterMs ?? 0) > LIMITS.retryAfterMsMax)
    return park('retry_after_too_long', fault, situation, policy, now) // I2
  if (situation.attempt >= policy.attemptsMax) return spent('attempts_spent', fault, situation, policy, now)
  if (situation.failures >= policy.failuresMax) return spent('failures_spent', fault, situation, policy, now)
  const own = backoffMs(situation.attempt, policy, situation.dice)
  const delayMs = fault.retryAfterMs === undefined ? own : Math.max(fault.retryAfterMs, own) // I2
  if (situation.waitedMs + delayMs > policy.waitMsMax) return spent('wait_spent', fault, situation, policy, now)
  return within(situation, now, {
    action: 'retry',
    delayMs,
    because: fault.retryAfterMs === undefined ? 'transient' : 'retry_after',
  })
}

function parkFirst(fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  const because = fault.class === 'needs_action' ? 'needs_action' : 'waiting_for_recovery'
  const mayWait = fault.class === 'transient' || fault.class === 'throttled'
  // Who cannot park can still try again in place, as long as that may help without a person.
  if (mayWait && !parkingOn(situation, policy)) return retry(fault, situation, policy, now)
  return park(because, fault, situation, policy, now)
}

/** Tries are spent: parked where that may help, else the end. */
function spent(reason: Reason, fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  const isHabit = TIMELESS.has(fault.category) && situation.isMixed !== true
  const mayPark = (fault.class === 'transient' || fault.class === 'throttled') && !isHabit
  return mayPark && parkingOn(situation, policy) ? park(reason, fault, situation, policy, now) : stop(reason)
}

/** Time mends none of these: a model that gets a call wrong in every try gets it wrong in an hour, too. */
const TIMELESS: ReadonlySet<FaultCategory> = new Set(['tool_call_truncated'] satisfies FaultCategory[])

function park(because: Reason, fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  if (!parkingOn(situation, policy)) return stop(because === 'needs_action' ? 'parking_off' : because)
  if ((situation.parks ?? 0) >= LIMITS.parksMax) return stop('parks_spent')
  const left = policy.parkMsMax - (situation.parkedMs ?? 0)
  const wait = fault.retryAfterMs
  if (left <= 0 || (wait !== undefined && wait > left)) return stop('park_time_spent')
  if (wait !== undefined && situation.deadlineAt != null && now + wait > situation.deadlineAt)
    return stop('deadline_passed')
  return { action: 'park', resumeAt: wait === undefined ? null : now + wait, because }
}

function within(situation: Situation, now: number, decision: Decision & { delayMs: number }): Decision {
  const { deadlineAt } = situation
  return deadlineAt != null && now + decision.delayMs > deadlineAt ? stop('deadline_passed') : decision
}

const parkingOn = (situation: Situation, policy: RetryPolicy): boolean => situation.canPark && policy.park === 'auto'
const isPast = (situation: Situation, now: number): boolean =>
  situation.deadlineAt != null && now >= situation.deadlineAt
const stop = (because: Reason): Decision => ({ action: 'stop', because })
const clamp01 = (dice: number): number => (dice >= 0 && dice <= 1 ? dice : 0.5)
