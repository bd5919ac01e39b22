/**
 * Decides what happens after a failure. Pure: clock and dice come in as arguments. Nothing else in the system decides
 * whether to retry.
 *
 * I1  Nothing that may have had an effect is repeated.
 * I2  A wait that the other side asked for is never shortened. If it is too long to sleep through, the turn parks.
 * I3  Every decision names its reason, from one closed list.
 * I4  A turn does not stop or park over one server's failure while the list has another model.
 * I5  Attempts that cost nothing are bounded by time (`patienceMs`), the others by count (`attemptsMax`, `failuresMax`).
 */
import { backoffMs, freeBackoffMs } from './backoff.ts'
import { decideCall, isPassing, refusedRetry, retryDelayMs, retryReason, stop } from './decide-call.ts'
import { isCutAtLimit } from './cut-at-limit.ts'
import type { Decision, Reason } from './decision.ts'
import { MAY_ASK_NEXT_MODEL } from './elsewhere.ts'
import { costsNothing } from './free.ts'
import { LIMITS, type RetryPolicy } from './policy.ts'
import type { FaultReport } from './report.ts'
import type {
  AnswerSituation,
  EngineSituation,
  LimitSituation,
  ProcessSituation,
  RunnerSituation,
  Situation,
} from './situation.ts'
import type { FaultCategory } from './categories.ts'

export function decide(fault: FaultReport, situation: Situation, policy: RetryPolicy, now: number): Decision {
  if (fault.class === 'cancelled') return stop('cancelled')
  switch (situation.at) {
    case 'answer':
      return decideAnswer(fault, situation, policy, now)
    case 'runner':
      return decideRunner(fault, situation, policy, now)
    case 'engine':
      return decideEngine(fault, situation, policy, now)
    case 'limit':
      return decideLimit(situation, policy, now)
    case 'call':
      return decideCall(fault, situation, policy)
    case 'process':
      return decideProcess(situation, policy)
  }
}

// ---- details, in the order they are used above ----

function decideAnswer(fault: FaultReport, situation: AnswerSituation, policy: RetryPolicy, now: number): Decision {
  if (isPast(situation, now)) return stop('deadline_passed')
  const here = decideSameModel(fault, situation, policy, now)
  const isEnd = here.action === 'stop' || here.action === 'park'
  return isEnd && mayAskNextModel(fault, situation, policy) ? NEXT_MODEL : here // I4
}

/** As if there were no other model. */
function decideSameModel(fault: FaultReport, situation: AnswerSituation, policy: RetryPolicy, now: number): Decision {
  switch (fault.next) {
    case 'never':
      return stop('not_retryable')
    case 'compact':
      return compact(fault, situation, policy)
    case 'restart':
      return askRestarted(situation, policy, now)
    case 'resolve':
    case 'retry':
      if (isCutAtLimit(fault) && situation.canTell) return tellModel(situation, policy, now)
      return retryAnswer(fault, situation, policy, now)
    case 'park': {
      // Without parking it can still be retried in place, if that may help without a person.
      const retries = isPassing(fault) && !parkingOn(situation, policy)
      return retries ? retryAnswer(fault, situation, policy, now) : parkFirst(fault, situation, policy, now)
    }
  }
}

function mayAskNextModel(fault: FaultReport, situation: AnswerSituation, policy: RetryPolicy): boolean {
  if (situation.fallbacks <= 0 || countedFailures(situation, policy) >= policy.failuresMax) return false
  if (fault.sideEffects === 'unknown') return false // I1
  return isAboutModel(fault.category) && MAY_ASK_NEXT_MODEL[fault.category]
}

const isAboutModel = (category: FaultCategory): category is keyof typeof MAY_ASK_NEXT_MODEL =>
  category in MAY_ASK_NEXT_MODEL
const NEXT_MODEL: Decision = { action: 'fallback', delayMs: 0, because: 'next_model' }

function compact(fault: FaultReport, situation: AnswerSituation, policy: RetryPolicy): Decision {
  if (fault.sideEffects === 'unknown') return stop('side_effects_unknown') // I1
  if (!situation.canCompact) return stop('cannot_compact')
  if (situation.compactions >= policy.compactionsMax) return stop('compactions_spent')
  return { action: 'compact', delayMs: 0, because: 'context_too_long' }
}

/** The model's process is being restarted by its supervisor, which decides how often; the answer is asked for again. */
function askRestarted(situation: AnswerSituation, policy: RetryPolicy, now: number): Decision {
  if (countedFailures(situation, policy) >= policy.failuresMax) return stop('failures_spent')
  const delayMs = backoffMs(1, policy, situation.dice)
  if (situation.waitedMs + delayMs > policy.waitMsMax) return stop('wait_spent')
  return beforeDeadline(situation, now, { action: 'restart', delayMs, because: 'crashed' })
}

/** The same request would be cut at the same length: the next one says so. */
function tellModel(situation: AnswerSituation, policy: RetryPolicy, now: number): Decision {
  const spent = situation.cuts >= LIMITS.cutsMax ? 'cuts_spent' : spentOf(situation, 0, policy)
  if (spent !== undefined) return stop(spent)
  return beforeDeadline(situation, now, { action: 'retry', delayMs: 0, because: 'output_too_long' })
}

function retryAnswer(fault: FaultReport, situation: AnswerSituation, policy: RetryPolicy, now: number): Decision {
  const refused = refusedRetry(fault)
  if (refused === 'retry_after_too_long') return park(refused, fault, situation, policy, now) // I2
  if (refused !== undefined) return stop(refused)
  const isFree = policy.patienceMs > 0 && costsNothing(fault, situation) // I5
  const delayMs = isFree ? freeDelayMs(fault, situation, policy) : answerDelayMs(fault, situation, policy)
  const failsTheSameWay = WAITING_DOES_NOT_HELP.has(fault.category) && !situation.hasOtherFaults
  const spent = isFree ? freeSpentOf(fault, situation, delayMs, policy) : spentOf(situation, delayMs, policy)
  if (spent !== undefined) return failsTheSameWay ? stop(spent) : parkOrStop(spent, fault, situation, policy, now)
  return beforeDeadline(situation, now, { action: 'retry', delayMs, because: retryReason(fault) })
}

const answerDelayMs = (fault: FaultReport, situation: AnswerSituation, policy: RetryPolicy): number =>
  retryDelayMs(fault, countedAttempts(situation, policy), situation.dice, policy)

/** The last attempt comes when patience ends, not after it. */
function freeDelayMs(fault: FaultReport, { outage, dice }: AnswerSituation, policy: RetryPolicy): number {
  const leftMs = Math.max(0, policy.patienceMs - outage.ms)
  const delayMs = Math.min(leftMs, freeBackoffMs(outage.failures + 1, policy, dice))
  return Math.max(fault.retryAfterMs ?? 0, delayMs) // I2
}

/** A model that gets a call wrong in every attempt still does in an hour. */
const WAITING_DOES_NOT_HELP: ReadonlySet<FaultCategory> = new Set<FaultCategory>(['tool_call_truncated'])

function freeSpentOf(
  fault: FaultReport,
  situation: AnswerSituation,
  delayMs: number,
  policy: RetryPolicy,
): Reason | undefined {
  const isManyTimes = situation.attempt >= policy.attemptsMax
  if (isManyTimes && mayAskNextModel(fault, situation, policy)) return 'attempts_spent' // the next model need not wait
  // A server that says how long to wait may ask for longer than patience lasts: it gets as many attempts as any other.
  const isPatient = situation.outage.ms < policy.patienceMs || (fault.retryAfterMs !== undefined && !isManyTimes)
  if (!isPatient) return 'patience_spent'
  return situation.waitedMs + delayMs > policy.waitMsMax ? 'wait_spent' : undefined
}

function spentOf(situation: AnswerSituation, delayMs: number, policy: RetryPolicy): Reason | undefined {
  if (countedAttempts(situation, policy) >= policy.attemptsMax) return 'attempts_spent'
  if (countedFailures(situation, policy) >= policy.failuresMax) return 'failures_spent'
  return situation.waitedMs + delayMs > policy.waitMsMax ? 'wait_spent' : undefined
}

/** Without patience, attempts that cost nothing are bounded by count like all others. */
const countedAttempts = ({ attempt, free }: AnswerSituation, { patienceMs }: RetryPolicy): number =>
  patienceMs > 0 ? attempt - free.attempts : attempt
const countedFailures = ({ failures, free }: AnswerSituation, { patienceMs }: RetryPolicy): number =>
  patienceMs > 0 ? failures - free.failures : failures

function decideRunner(fault: FaultReport, situation: RunnerSituation, policy: RetryPolicy, now: number): Decision {
  if (isPast(situation, now)) return stop('deadline_passed')
  if (fault.next !== 'resolve') return decideEngine(fault, situation, policy, now)
  if (fault.sideEffects === 'unknown') return stop('side_effects_unknown') // I1
  const { resolves, resolvingMs, failures, waitedMs, dice } = situation
  const isSpent = resolves >= LIMITS.resolvesMax || resolvingMs >= LIMITS.resolveMsMax
  if (isSpent) return parkOrStop('resolves_spent', fault, situation, policy, now)
  if (failures >= policy.failuresMax) return parkOrStop('failures_spent', fault, situation, policy, now)
  // The first look-up is immediate: a runner that moved is usually up at its new address already.
  // The last one comes when the time is up, not after a pause that goes beyond it.
  const leftMs = LIMITS.resolveMsMax - resolvingMs
  const delayMs = resolves === 0 ? 0 : Math.min(leftMs, backoffMs(resolves, policy, dice))
  if (waitedMs + delayMs > policy.waitMsMax) return parkOrStop('wait_spent', fault, situation, policy, now)
  return beforeDeadline(situation, now, { action: 'resolve', delayMs, because: 'moved' })
}

/** Nothing can be retried in place here. */
function decideEngine(
  fault: FaultReport,
  situation: EngineSituation | RunnerSituation,
  policy: RetryPolicy,
  now: number,
): Decision {
  if (isPast(situation, now)) return stop('deadline_passed')
  if (fault.next === 'park') return parkFirst(fault, situation, policy, now)
  if (fault.next !== 'retry') return stop('not_retryable')
  const refused = refusedRetry(fault)
  if (refused === 'side_effects_unknown') return stop(refused)
  return parkOrStop(refused ?? 'attempts_spent', fault, situation, policy, now)
}

/** A limit of the policy is reached and nothing failed: a person says whether the turn continues. */
function decideLimit(situation: LimitSituation, policy: RetryPolicy, now: number): Decision {
  if (isPast(situation, now)) return stop('deadline_passed')
  const { because } = situation
  return policy.park === 'auto' ? { action: 'park', resumeAt: null, because } : stop(because)
}

function decideProcess(situation: ProcessSituation, policy: RetryPolicy): Decision {
  const { verdict, wasReady, failuresInARow, failuresInWindow, dice } = situation
  if (verdict === 'never') return stop('not_retryable')
  // A server that ran out of memory over one request has proven that it can start.
  if (verdict === 'after_change' && !wasReady) return stop('needs_action')
  if (failuresInWindow >= policy.failuresMax) return stop('restarts_spent')
  return { action: 'restart', delayMs: backoffMs(failuresInARow, policy, dice), because: 'crashed' }
}

// ---- what several boundaries share ----

type TurnSituation = AnswerSituation | RunnerSituation | EngineSituation

function parkFirst(fault: FaultReport, situation: TurnSituation, policy: RetryPolicy, now: number): Decision {
  const because = fault.class === 'needs_action' ? 'needs_action' : 'waiting_for_recovery'
  return park(because, fault, situation, policy, now)
}

/** The budget is spent: park if time may help, else stop. */
function parkOrStop(
  reason: Reason,
  fault: FaultReport,
  situation: TurnSituation,
  policy: RetryPolicy,
  now: number,
): Decision {
  const mayPark = isPassing(fault) && parkingOn(situation, policy)
  return mayPark ? park(reason, fault, situation, policy, now) : stop(reason)
}

function park(
  because: Reason,
  fault: FaultReport,
  { parking, deadlineAt }: TurnSituation,
  policy: RetryPolicy,
  now: number,
): Decision {
  if (parking === 'impossible' || policy.park !== 'auto')
    return stop(because === 'needs_action' || because === 'waiting_for_recovery' ? 'parking_off' : because)
  if (parking.used >= LIMITS.parksMax) return stop('parks_spent')
  const leftMs = policy.parkMsMax - parking.usedMs
  const waitMs = fault.retryAfterMs
  if (leftMs <= 0 || (waitMs !== undefined && waitMs > leftMs)) return stop('park_time_spent')
  if (waitMs !== undefined && deadlineAt !== null && now + waitMs > deadlineAt) return stop('deadline_passed')
  return { action: 'park', resumeAt: waitMs === undefined ? null : now + waitMs, because }
}

function beforeDeadline(
  { deadlineAt }: TurnSituation,
  now: number,
  decision: Decision & { delayMs: number },
): Decision {
  return deadlineAt !== null && now + decision.delayMs > deadlineAt ? stop('deadline_passed') : decision
}

const parkingOn = ({ parking }: TurnSituation, policy: RetryPolicy): boolean =>
  parking !== 'impossible' && policy.park === 'auto'
const isPast = ({ deadlineAt }: Pick<TurnSituation, 'deadlineAt'>, now: number): boolean =>
  deadlineAt !== null && now >= deadlineAt
