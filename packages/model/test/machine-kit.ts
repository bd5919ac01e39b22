/** What the tests of the answer machine share. */
import { POLICY_DEFAULTS } from '@breakfall/faults'
import type { Ladder } from '../src/machine/next-rung.ts'
import { type MachineEvent, reduceAnswer } from '../src/machine/reduce-answer.ts'
import { type AnswerState, initialAnswer } from '../src/machine/state.ts'

export const AT = '2026-11-16T12:00:00.000Z'
export const NOW = Date.parse(AT)

export const LADDER: Ladder = {
  policy: { ...POLICY_DEFAULTS, backoffMs: 100 },
  canContinue: true,
  canTakeBack: true,
  canReplay: true,
  fallbacks: 0,
  canCompact: true,
  canTell: false,
  canPark: false,
  deadlineAt: null,
  dice: 1,
}

export const fold = (...events: readonly MachineEvent[]): AnswerState => events.reduce(reduceAnswer, initialAnswer())
export const START: MachineEvent = { type: 'step-start' }
