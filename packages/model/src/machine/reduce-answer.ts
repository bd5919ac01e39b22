/**
 * Folds what happens to an answer into its state. Pure. The events are those of the daemon's journal, so a turn that lost its
 * process is folded from the journal into exactly the state it had; drivers without a journal fold the same events in memory.
 *
 * I1  The same events give the same state, however the text is split into deltas.
 * I2  Every failure and every wait is counted once, in the one budget.
 * I3  Text is continued whole or not at all: discarding any kept part ends the continuation.
 * I4  A complete answer earns back half of what the turn has used, and parks start over: a turn that advances is never stranded.
 * I5  An outage starts at the first failure that cost nothing, by the time of its event, so a crash does not refill patience.
 */
import type { FaultReport } from '@breakfall/faults'
import { type AnswerState, NO_STEP, type ShownPart } from './state.ts'

export type MachineEvent =
  | { readonly type: 'step-start' }
  | {
      readonly type: 'text-delta' | 'reasoning-delta'
      readonly attempt: number
      readonly part: string
      readonly text: string
    }
  /** For a driver whose client gets a refusal in another field than text. */
  | { readonly type: 'refusal-delta'; readonly attempt: number; readonly part: string; readonly text: string }
  | { readonly type: 'tool-draft' | 'part-discarded'; readonly attempt: number; readonly part: string }
  /** All that an attempt showed, and parts that are void, at once: an answer may have a hundred thousand calls. */
  | { readonly type: 'parts-shown'; readonly attempt: number; readonly parts: readonly ShownPart[] }
  | { readonly type: 'parts-discarded'; readonly parts: readonly ShownPart[] }
  | { readonly type: 'tool-call' }
  /** The answer is complete. In a journal, the first `tool-call` says so; an answer without one ends the turn. */
  | { readonly type: 'answered' }
  | RetryEvent
  /** The conversation is shorter now. `attempt` wrote a summary for it. */
  | { readonly type: 'compacted'; readonly attempt?: number | undefined }
  | ParkedEvent
  /** The request of this attempt was refused and repaired. That costs nothing. */
  | { readonly type: 'repaired'; readonly attempt: number }
  | { readonly type: 'resumed'; readonly at: string }
  | { readonly type: 'taken-over' }
  /** The answer failed for good. In a journal the turn ends here. */
  | { readonly type: 'stopped'; readonly attempt: number; readonly fault: FaultReport }

export type ParkedEvent = {
  readonly type: 'parked'
  readonly at: string
  readonly fault: FaultReport
  /** Nothing failed: it costs neither a park nor an attempt. */
  readonly isFree?: boolean
  /** A person was asked whether to continue, and the time until the answer does not count. */
  readonly isQuestion?: boolean
}

export type RetryEvent = {
  readonly type: 'retry'
  readonly at: string
  readonly attempt: number
  readonly fault: FaultReport
  /** `resolve` is a call to a runner: it draws on the same budget and is otherwise not about the answer. */
  readonly action: 'retry' | 'resume' | 'fallback' | 'resolve'
  readonly delayMs: number
  readonly prefillRefused?: boolean | undefined
  /** The next request tells the model that its call was cut off. */
  readonly tells?: boolean | undefined
  /** The failed attempt cost nothing. */
  readonly free?: boolean | undefined
}

export function reduceAnswer(state: AnswerState, event: MachineEvent): AnswerState {
  switch (event.type) {
    case 'step-start':
      return { ...state, ...NO_STEP, isAnswering: true, asked: 1, attemptsTotal: state.attemptsTotal + 1 }
    case 'text-delta':
    case 'reasoning-delta':
    case 'refusal-delta':
      return shown(state, event.attempt, event.part, SHOWN_AS[event.type], event.text)
    case 'tool-draft':
      return shown(state, event.attempt, event.part, 'tool', '')
    case 'part-discarded':
      return discarded(state, [event])
    case 'parts-shown':
      return allShown(state, event.attempt, event.parts)
    case 'parts-discarded':
      return discarded(state, event.parts)
    case 'tool-call':
    case 'answered':
      return answered(state)
    case 'retry':
      return event.action === 'resolve' ? drawn(state, event) : retried(drawn(state, event), event)
    case 'compacted':
      return compacted(state, event.attempt)
    case 'repaired':
      return askingAgain(seen(state, event.attempt))
    case 'parked':
      return parked(state, event)
    case 'resumed':
      return resumed(state, event.at)
    case 'taken-over':
      return askingAgain(state)
    case 'stopped':
      return stopped(state, event.attempt, event.fault)
  }
}

// ---- details, in the order they are used above ----

const SHOWN_AS = { 'text-delta': 'text', 'reasoning-delta': 'reasoning', 'refusal-delta': 'refusal' } as const

function shown(state: AnswerState, attempt: number, part: string, kind: ShownPart['kind'], text: string): AnswerState {
  const next = seen(state, attempt)
  const at = next.parts.findIndex((known) => known.part === part && known.attempt === attempt)
  const known = next.parts[at]
  const parts =
    known === undefined
      ? [...next.parts, { attempt, part, kind, text }]
      : next.parts.with(at, { ...known, text: known.text + text })
  return { ...next, parts, outage: null }
}

/** An event mentions this attempt. Tool calls that earlier attempts had started are void: only a complete answer releases one. */
function seen(state: AnswerState, attempt: number): AnswerState {
  const next = asking(state, attempt)
  if (attempt <= state.attempt) return next
  return { ...next, attempt, parts: next.parts.filter(({ kind }) => kind !== 'tool') }
}

/** This attempt is made, or about to be. Each is counted once, however many events mention it. */
function asking(state: AnswerState, attempt: number): AnswerState {
  const more = attempt - state.asked
  return more <= 0 ? state : { ...state, asked: attempt, attemptsTotal: state.attemptsTotal + more }
}

const askingAgain = (state: AnswerState): AnswerState => (state.isAnswering ? asking(state, state.attempt + 1) : state)

/** Parts that no other attempt has. */
function allShown(state: AnswerState, attempt: number, parts: readonly ShownPart[]): AnswerState {
  if (parts.length === 0) return state
  const next = seen(state, attempt)
  return { ...next, parts: [...next.parts, ...parts], outage: null }
}

function discarded(state: AnswerState, discards: readonly Pick<ShownPart, 'attempt' | 'part'>[]): AnswerState {
  const keyOf = ({ attempt, part }: Pick<ShownPart, 'attempt' | 'part'>): string => `${attempt} ${part}`
  const isVoid = new Set(discards.map(keyOf))
  const parts = state.parts.filter((known) => !isVoid.has(keyOf(known)))
  const isKept = discards.every(({ attempt }) => attempt > state.keptAttempt)
  return { ...state, parts, keptAttempt: isKept ? state.keptAttempt : 0 } // I3
}

/** I4 */
function answered(state: AnswerState): AnswerState {
  if (!state.isAnswering) return state // another call of the same answer
  const { failures, freeFailures, waitedMs, parkedMs } = state.budget
  const budget = {
    ...state.budget,
    failures: Math.ceil(failures / 2),
    freeFailures: Math.ceil(freeFailures / 2),
    waitedMs: Math.floor(waitedMs / 2),
    parkedMs: Math.floor(parkedMs / 2),
    parks: 0,
  }
  return { ...state, isAnswering: false, outage: null, budget }
}

/** I2 */
function drawn(state: AnswerState, { delayMs, free }: RetryEvent): AnswerState {
  const { budget } = state
  return {
    ...state,
    budget: {
      ...budget,
      failures: budget.failures + 1,
      freeFailures: budget.freeFailures + (free === true ? 1 : 0),
      waitedMs: budget.waitedMs + delayMs,
    },
  }
}

function retried(state: AnswerState, event: RetryEvent): AnswerState {
  const { attempt, fault, action, prefillRefused, tells, free } = event
  const isFallback = action === 'fallback'
  return {
    ...askingAgain(seen(state, attempt)),
    target: state.target + (isFallback ? 1 : 0),
    attemptsSpent: isFallback ? 0 : state.attemptsSpent + 1,
    freeSpent: isFallback ? 0 : state.freeSpent + (free === true ? 1 : 0),
    outage: isFallback ? null : outageAfter(state, event),
    failedAs: isFallback ? [] : [...state.failedAs, fault.category],
    lastFault: fault,
    keptAttempt: action === 'resume' ? attempt : 0,
    prefillRefused: state.prefillRefused || prefillRefused === true,
    cuts: isFallback ? 0 : state.cuts + (tells === true ? 1 : 0),
  }
}

/** I5 */
function outageAfter({ outage }: AnswerState, { free, at }: RetryEvent): AnswerState['outage'] {
  if (free !== true) return null
  return { since: outage?.since ?? at, failures: (outage?.failures ?? 0) + 1 }
}

/** The question is another one now: it gets all its attempts. */
function compacted(state: AnswerState, attempt: number | undefined): AnswerState {
  const { budget } = state
  return {
    ...(attempt === undefined ? state : askingAgain(seen(state, attempt))),
    attemptsSpent: 0,
    freeSpent: 0,
    failedAs: [],
    outage: null,
    budget: { ...budget, compactions: budget.compactions + 1 },
  }
}

function parked(
  state: AnswerState,
  { fault, at: since, isFree = false, isQuestion = false }: ParkedEvent,
): AnswerState {
  const { budget } = state
  const counted = isFree ? budget : { ...budget, failures: budget.failures + 1, parks: budget.parks + 1 } // I2
  const { retry } = fault // of the attempt that failed, if the park is about one
  const next = state.isAnswering && retry !== undefined ? seen(state, retry.attempt) : state
  return { ...next, parked: { since, isFree, isQuestion }, budget: counted }
}

/** What the turn waited for is there: the step gets all its attempts again, starting with the first model. */
function resumed(state: AnswerState, at: string): AnswerState {
  if (state.parked === null) return askingAgain(state)
  const { since, isFree, isQuestion: wasQuestion } = state.parked
  const { budget } = state
  const parkedMs = budget.parkedMs + (wasQuestion ? 0 : Math.max(0, Date.parse(at) - Date.parse(since)))
  return {
    ...askingAgain(state),
    ...(isFree ? {} : { target: 0, attemptsSpent: 0, freeSpent: 0, failedAs: [] }),
    outage: null,
    parked: null,
    budget: { ...budget, parkedMs, compactions: wasQuestion ? 0 : budget.compactions }, // a person gave it as much again
  }
}

function stopped(state: AnswerState, attempt: number, fault: FaultReport): AnswerState {
  const failures = state.budget.failures + (fault.class === 'cancelled' ? 0 : 1) // I2
  return { ...seen(state, attempt), isAnswering: false, budget: { ...state.budget, failures } }
}
