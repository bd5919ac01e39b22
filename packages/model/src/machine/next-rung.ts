/**
 * Picks the rung of the recovery ladder that follows a failed attempt. Pure. Whether to retry at all is `decide`'s to say; here
 * is what that means for an answer of which a part may be shown already.
 *
 * I1  Only text is continued: never after reasoning, never once a tool call has started, never at a server that refused to.
 * I2  Sent bytes are never contradicted. If they cannot be taken back, the next attempt has to repeat them; if it cannot be
 *     checked that it does, or it did not, the answer ends here.
 * I3  The fault of a rung says what happens next, and that is what happens.
 */
import {
  type AnswerSituation,
  decide,
  type Decision,
  type Fault,
  faultFrom,
  type FaultReport,
  type RetryPolicy,
  withDecision,
} from '@breakfall/faults'
import { costsNothing } from '@breakfall/faults/internal'
import { isContinuable } from './kept-text.ts'
import type { MachineEvent } from './reduce-answer.ts'
import { type AnswerState, nextQuestion, type ShownPart, shownText } from './state.ts'

/** Which rungs there are, here and now, and how often they may be used. */
export type Ladder = {
  readonly policy: RetryPolicy
  /** The model asked now can continue an unfinished text. */
  readonly canContinue: boolean
  /** What was shown can be discarded. False once bytes went to a client that cannot unread them. */
  readonly canTakeBack: boolean
  /** Another answer can be compared with what was shown. Used only if nothing can be taken back. */
  readonly canReplay: boolean
  /** Models left in the list after the one asked now. */
  readonly fallbacks: number
  /** There is something in the conversation that can be dropped to make it shorter. */
  readonly canCompact: boolean
  /** The next request can tell the model that its call was cut off. */
  readonly canTell: boolean
  /** Somebody can wake the turn again. False in a library call. */
  readonly canPark: boolean
  /** When everything must be over, in epoch milliseconds. */
  readonly deadlineAt: number | null
  /** Between 0 and 1. */
  readonly dice: number
}

/** The rungs of a driver: only what it has besides asking the whole question again. */
export const ladderOf = (
  driver: Pick<Ladder, 'policy' | 'fallbacks' | 'deadlineAt' | 'dice'> & Partial<Ladder>,
): Ladder => ({
  canContinue: false,
  canTakeBack: true,
  canReplay: true,
  canCompact: false,
  canTell: false,
  canPark: false,
  ...driver,
})

export type AttemptFailure = {
  readonly attempt: number
  readonly fault: Fault
  /** The answer had to start with what is shown already, and did not. */
  readonly diverged: boolean
  /** The model had started to answer. */
  readonly contentStarted: boolean
}

type RungBase = {
  readonly attempt: number
  /**
   * Number of the last attempt that may be made at this model. While patience lasts, attempts are not counted, so this moves along: it
   * is then the number of the next attempt.
   */
  readonly max: number
  /** I3 */
  readonly fault: FaultReport
  /** What is shown and is void now. */
  readonly discards: readonly ShownPart[]
}

export type Rung =
  | (RungBase & {
      readonly action: 'resume' | 'retry' | 'fallback' | 'compact'
      readonly decision: Extract<Decision, { delayMs: number }>
      readonly delayMs: number
      readonly nextAt: string
      readonly prefillRefused: boolean
      /** The next request tells the model that its call was cut off. */
      readonly tells: boolean
      /** The failed attempt cost nothing. */
      readonly free: boolean
    })
  | (RungBase & { readonly action: 'park'; readonly decision: Extract<Decision, { action: 'park' }> })
  | (RungBase & { readonly action: 'stop'; readonly decision: Extract<Decision, { action: 'stop' }> })

export type RungAction = Rung['action']

export function nextRung(state: AnswerState, failure: AttemptFailure, ladder: Ladder, now: number): Rung {
  const { attempt, contentStarted } = failure
  const prefillRefused = isPrefillRefused(state, failure)
  const fault = prefillRefused ? retryable(failure.fault) : failure.fault
  const free = costsNothing(fault.report, failure)
  const base = {
    attempt,
    max: Math.max(attempt, attempt - 1 - state.attemptsSpent + ladder.policy.attemptsMax),
    discards: ladder.canTakeBack ? state.parts : [],
  }
  if (isLost(state, failure, ladder)) return lost(state, failure, base)
  const decision = decide(fault.report, situationOf(state, fault, contentStarted, ladder, now), ladder.policy, now)
  if (decision.action === 'stop') return stop(fault, decision, base)
  if (decision.action === 'park') return park(fault, decision, base)
  const { delayMs } = decision
  const nextAt = timeOf(now + delayMs)
  const tells = decision.because === 'output_too_long'
  const action = rungOf(decision.action, !tells && !prefillRefused && canResume(state, ladder))
  const max = action === 'fallback' ? base.max : Math.max(base.max, attempt + 1)
  return {
    ...base,
    max,
    action,
    discards: action === 'resume' ? [] : base.discards,
    decision,
    delayMs,
    nextAt,
    prefillRefused,
    tells,
    free,
    fault: withDecision(fault, decision).with({ retry: { attempt, max, nextAt } }).report,
  }
}

/** The rung as the event to fold, for drivers without a journal. */
export function rungEvent(rung: Rung, now: number): MachineEvent {
  const { attempt, fault } = rung
  if (rung.action === 'stop') return { type: 'stopped', attempt, fault }
  if (rung.action === 'park') return { type: 'parked', at: timeOf(now), fault }
  const { delayMs, prefillRefused, tells, free } = rung
  const retry = { type: 'retry', at: timeOf(now), attempt, fault, delayMs, prefillRefused, tells, free } as const
  return { ...retry, action: rung.action === 'compact' ? 'retry' : rung.action }
}

// ---- details, in the order they are used above ----

/** The server was asked to continue, and rejected the unfinished message or started over. The rung below is still sound. */
function isPrefillRefused(state: AnswerState, { fault, diverged }: AttemptFailure): boolean {
  const isRefused = fault.category === 'model_bad_request' || fault.category === 'model_history_invalid'
  return nextQuestion(state).how === 'continue' && (isRefused || diverged)
}

/** Asking for the whole answer may succeed, whatever the server thinks of unfinished messages. */
const retryable = (fault: Fault): Fault => (fault.report.next === 'never' ? fault.with({ next: 'retry' }) : fault)

/** I2 */
function isLost(state: AnswerState, { fault, diverged }: AttemptFailure, ladder: Ladder): boolean {
  if (ladder.canTakeBack || fault.class === 'cancelled') return false
  return !ladder.canReplay || (diverged && nextQuestion(state).how === 'replay')
}

type Base = Pick<RungBase, 'attempt' | 'max' | 'discards'>

/** People need to know what broke the answer. That the next attempt diverged only explains why it could not be repaired. */
function lost({ lastFault }: AnswerState, { fault, diverged }: AttemptFailure, base: Base): Rung {
  const { attempt, max } = base
  const broken = diverged && lastFault !== null ? faultFrom(lastFault) : fault
  const message = { action: 'What was already sent cannot be continued, so the stream ends here.' }
  const { report } = broken.with({ message, stopped: 'not_retryable', retry: { attempt, max, nextAt: null } })
  return { ...base, action: 'stop', decision: { action: 'stop', because: 'not_retryable' }, fault: report }
}

function situationOf(
  state: AnswerState,
  fault: Fault,
  contentStarted: boolean,
  ladder: Ladder,
  now: number,
): AnswerSituation {
  const { failures, freeFailures, waitedMs, parks, parkedMs, compactions } = state.budget
  const { deadlineAt, dice, fallbacks } = ladder
  return {
    at: 'answer',
    attempt: state.attemptsSpent + 1,
    contentStarted,
    free: { attempts: state.freeSpent, failures: freeFailures },
    outage: outageAt(state, now),
    failures: failures + 1,
    waitedMs,
    parking: ladder.canPark ? { used: parks, usedMs: parkedMs } : 'impossible',
    compactions,
    canCompact: ladder.canCompact,
    cuts: state.cuts,
    canTell: ladder.canTell,
    hasOtherFaults: state.failedAs.some((category) => category !== fault.category),
    deadlineAt,
    dice,
    fallbacks,
  }
}

function outageAt({ outage }: AnswerState, now: number): AnswerSituation['outage'] {
  if (outage === null) return { failures: 0, ms: 0 }
  return { failures: outage.failures, ms: Math.max(0, now - Date.parse(outage.since)) }
}

function stop(fault: Fault, decision: Extract<Decision, { action: 'stop' }>, base: Base): Rung {
  const { attempt, max } = base
  const { report } = withDecision(fault, decision, attempt).with({ retry: { attempt, max, nextAt: null } })
  return { ...base, action: 'stop', decision, fault: report }
}

function park(fault: Fault, decision: Extract<Decision, { action: 'park' }>, base: Base): Rung {
  const { attempt, max } = base
  const nextAt = decision.resumeAt === null ? null : timeOf(decision.resumeAt)
  return { ...base, action: 'park', decision, fault: fault.with({ retry: { attempt, max, nextAt } }).report }
}

/** I1 */
function canResume(state: AnswerState, ladder: Ladder): boolean {
  if (!ladder.canContinue || state.prefillRefused) return false
  return state.parts.every(({ kind }) => kind === 'text') && isContinuable(shownText(state))
}

/** The only place where a decision becomes a rung. */
function rungOf(decided: Extract<Decision, { delayMs: number }>['action'], mayResume: boolean) {
  switch (decided) {
    case 'retry':
    case 'resolve':
    case 'restart':
      return mayResume ? 'resume' : 'retry'
    case 'fallback':
    case 'compact':
      return decided
  }
}

const timeOf = (ms: number): string => new Date(ms).toISOString()
