/** The result of a step: the turn continues, or `decide` said to park or stop it, which the engine then does. */
import { type Decision, faultFrom, type FaultReport, withDecision } from '@breakfall/faults'

export type StepResult = { readonly kind: 'continue' } | GiveUp

export type GiveUp = { readonly kind: 'give-up'; readonly fault: FaultReport; readonly decision: FinalDecision }

export type FinalDecision = Extract<Decision, { action: 'park' | 'stop' }>

export const CONTINUE: StepResult = { kind: 'continue' }

export function giveUp(fault: FaultReport, decision: FinalDecision): GiveUp {
  if (decision.action === 'park') return { kind: 'give-up', fault, decision }
  const { report } = withDecision(faultFrom(fault), decision, fault.retry?.attempt)
  return { kind: 'give-up', fault: report, decision }
}

export function isGiveUp(value: unknown): value is GiveUp {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'give-up'
}
