/** Asks `decide` about a fault in the current turn that is not a model's, with the turn's one budget. */
import {
  decide,
  type Decision,
  type EngineSituation,
  type FaultReport,
  type RunnerSituation,
  type Situation,
} from '@breakfall/faults'
import { deadlineAt } from '../turn/next.ts'
import type { TurnFold } from '../turn/state.ts'
import type { OwnedSession } from './owned-session.ts'

/** What only the caller knows. The budget, the deadline and the dice are the turn's. */
export type Failed = Pick<RunnerSituation, 'at' | 'resolves' | 'resolvingMs'> | Pick<EngineSituation, 'at'>

export function decideFor(session: OwnedSession, turn: TurnFold, fault: FaultReport, failed: Failed): Decision {
  return decide(fault, situationFor(session, turn, failed), session.policy, session.clock.now())
}

export function situationFor({ policy, clock }: OwnedSession, turn: TurnFold, failed: Failed): Situation {
  const { failures, freeFailures, waitedMs, parks, parkedMs } = turn.answer.budget
  const used = {
    failures: failures - (policy.patienceMs > 0 ? freeFailures : 0) + 1,
    waitedMs,
    parking: { used: parks, usedMs: parkedMs },
    deadlineAt: deadlineAt(turn, policy),
    dice: clock.dice(),
  }
  return { ...failed, ...used }
}
