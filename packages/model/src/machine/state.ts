/**
 * What is known about an answer while it is being asked for: which model, which attempt, what is shown, what was spent.
 * A value. `reduceAnswer` makes the next one from an event, `nextRung` reads it to decide what follows a failure.
 *
 * It spans a whole turn: the target and the budget outlive a step, everything else starts over with each `step-start`.
 */
import type { FaultReport } from '@breakfall/faults'
import type { Segment } from './prefix-gate.ts'

export type AnswerState = {
  /** Index of the model that is asked, in the list of the first choice and its fallbacks. */
  readonly target: number
  /** True from a step's start until its answer is complete. */
  readonly isAnswering: boolean
  /** The last attempt of this step that an event mentions; 0 before the first. */
  readonly attempt: number
  /** The last attempt of this step that was made or is about to be made. */
  readonly asked: number
  /** Attempts in the whole turn, counted as soon as they are about to be made. */
  readonly attemptsTotal: number
  /** Failed attempts since the step began, since this target was chosen, or since a parked turn resumed. */
  readonly attemptsSpent: number
  /** Those of them that cost nothing. */
  readonly freeSpent: number
  /** Set while attempts fail before the model answers anything: since when, and how many did in a row. */
  readonly outage: { readonly since: string; readonly failures: number } | null
  /** The categories of those failures, oldest first. */
  readonly failedAs: readonly string[]
  /** The last failure of this step. */
  readonly lastFault: FaultReport | null
  /** Parts of attempts up to this one are kept, and the next attempt continues them. 0: nothing is kept. */
  readonly keptAttempt: number
  /** The server refused to continue kept text, so it is not asked to again in this step. */
  readonly prefillRefused: boolean
  /** Calls of this step that the output limit cut off and that the conversation mentions. */
  readonly cuts: number
  /** What the step's attempts have shown and not discarded, in order. */
  readonly parts: readonly ShownPart[]
  /** Set while the turn is parked. */
  readonly parked: {
    readonly since: string
    /** Nothing failed: it costs neither a park nor an attempt. */
    readonly isFree: boolean
    /** A person was asked whether to continue. */
    readonly isQuestion: boolean
  } | null
  readonly budget: AnswerBudget
}

export type ShownPart = {
  readonly attempt: number
  readonly part: string
  readonly kind: 'text' | 'reasoning' | 'refusal' | 'tool'
  /** Empty for a tool call, and for text that a driver does not keep because no server could continue it. */
  readonly text: string
}

/**
 * What a turn has used so far. Every layer draws on the same budget, so one layer's retries never refill another's. Only progress
 * refills it: each complete answer earns back a half, so a turn that advances never runs out.
 */
export type AnswerBudget = {
  readonly failures: number
  /** Those of them that cost nothing. */
  readonly freeFailures: number
  readonly waitedMs: number
  readonly parks: number
  readonly parkedMs: number
  /** How often the conversation was shortened. */
  readonly compactions: number
}

export const NO_BUDGET_USED: AnswerBudget = {
  failures: 0,
  freeFailures: 0,
  waitedMs: 0,
  parks: 0,
  parkedMs: 0,
  compactions: 0,
}

export function initialAnswer(used: Partial<AnswerBudget> = {}): AnswerState {
  return {
    target: 0,
    attemptsTotal: 0,
    parked: null,
    budget: { ...NO_BUDGET_USED, ...used },
    ...NO_STEP,
  }
}

/** Everything that starts over with a step. */
export const NO_STEP = {
  isAnswering: false,
  attempt: 0,
  asked: 0,
  attemptsSpent: 0,
  freeSpent: 0,
  outage: null,
  failedAs: [],
  lastFault: null,
  keptAttempt: 0,
  prefillRefused: false,
  cuts: 0,
  parts: [],
} as const satisfies Partial<AnswerState>

/** Number of the attempt to make next. */
export const nextAttempt = (state: AnswerState): number => state.attempt + 1

/** No other attempt may follow this one, if every attempt counts. */
export const isLastAttempt = (state: AnswerState, targets: number, policy: { readonly attemptsMax: number }): boolean =>
  state.target === targets - 1 && state.attemptsSpent + 1 >= policy.attemptsMax

/** Text of all parts that are shown. */
export const shownText = ({ parts }: AnswerState): string =>
  parts
    .filter(({ kind }) => kind === 'text')
    .map(({ text }) => text)
    .join('')

/** Parts of an attempt that died with its process. They have to be discarded before the next attempt. */
export const interruptedParts = (state: AnswerState): readonly ShownPart[] =>
  state.parts.filter(({ attempt, kind }) => kind !== 'tool' && attempt > state.keptAttempt)

/** How the next attempt asks. */
export type Question =
  | { readonly how: 'whole' }
  /** Asks the server to continue this text. */
  | { readonly how: 'continue'; readonly text: string }
  /** Asks for the whole answer again, which has to start with exactly what is shown: that cannot be taken back. */
  | { readonly how: 'replay'; readonly shown: readonly Segment[] }

export function nextQuestion(state: AnswerState): Question {
  if (state.parts.length === 0) return { how: 'whole' }
  if (state.keptAttempt > 0) return { how: 'continue', text: shownText(state) }
  const shown = state.parts.flatMap(({ kind, text }) => (kind === 'tool' ? [] : [{ kind, text }]))
  return { how: 'replay', shown }
}
