/** The result of a step: the turn continues, or `decide` said to park or stop it, which the engine then does. */
import { type Decision, faultFrom, type FaultReport, withDecision } from '@breakfall/faults'
import type { CallQuestion } from '@breakfall/wire'
import type { Approval, ToolCall } from './state.ts'
import type { ToolOutcome } from './tool-outcome.ts'

export type StepResult = { readonly kind: 'continue' } | GiveUp | AsksPerson

/** A call has left, and its server asks something before it completes it. The call stays open. */
export type AsksPerson = {
  readonly kind: 'asks'
  readonly call: ToolCall
  readonly question: CallQuestion & Pick<Approval, 'continues'>
  /** Answers in place of a person. */
  readonly decline: () => void
}

export type GiveUp = { readonly kind: 'give-up'; readonly fault: FaultReport; readonly decision: FinalDecision }

export type FinalDecision = Extract<Decision, { action: 'park' | 'stop' }>

export const CONTINUE: StepResult = { kind: 'continue' }

export function giveUp(fault: FaultReport, decision: FinalDecision): GiveUp {
  if (decision.action === 'park') return { kind: 'give-up', fault, decision }
  const { report } = withDecision(faultFrom(fault), decision, fault.retry?.attempt)
  return { kind: 'give-up', fault: report, decision }
}

/** There is no outcome of the call yet, and may be none. */
export const isStep = (value: ToolOutcome | GiveUp | AsksPerson): value is GiveUp | AsksPerson => 'kind' in value

export function isGiveUp(value: unknown): value is GiveUp {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'give-up'
}
