/** The faults of a trial, and the answers that they hit. */
import { FAULT_KINDS } from '../fault-kinds.ts'
import { faultFor, type Plan } from '../plan.ts'
import { parsePlan } from '../plan-text.ts'
import type { ChaosFault } from '../fault-kinds.ts'
import { LAST_STEP, PLAIN_STEP } from './script.ts'
import type { TrialMode } from './verdict.ts'

/** What people meet: each breaks an answer in another way. */
export const TRIAL_FAULTS: readonly string[] = [
  'fin',
  'early_end',
  'in_band_error:server_error',
  'cut_tool_arguments:finish=false:ending=reset',
  'stall:600000',
  'reset_before_headers',
  'status:429:retryAfter=1s',
  'status:503',
]

const AFTER_EVENTS = 7 // inside the text, in every API

/** One plan per fault. Throws an `invalid_request` fault that names what is wrong. */
export function trialPlans(faults: readonly string[], seed: number): readonly { fault: string; plan: Plan }[] {
  return faults.map((fault) => {
    const { faults: parsed } = parsePlan(`seed=${seed},faults=${withPlace(fault)}`)
    return { fault, plan: { ...parsePlan(`seed=${seed}`), faults: parsed, rate: 1 } }
  })
}

/** The first attempt at a step in the middle, and at the last answer. */
export function trialFault(plan: Plan, mode: TrialMode, step: number, attempt: number): ChaosFault | undefined {
  const isHit = mode === 'text' ? step === PLAIN_STEP : step === MIDDLE_STEP || step === LAST_STEP
  if (!isHit || attempt > 1) return undefined
  return faultFor(plan, { ordinal: step + 1, fingerprint: `step-${step}`, attempt })
}

// ---- details ----

const MIDDLE_STEP = 2

function withPlace(fault: string): string {
  const [kind = ''] = fault.split(':')
  const parameters: object = Object.entries(FAULT_KINDS).find(([name]) => name === kind)?.[1].parameters ?? {}
  const isOpen = 'afterEvents' in parameters && !fault.includes('afterEvents')
  return isOpen ? `${fault}:afterEvents=${AFTER_EVENTS}` : fault
}
