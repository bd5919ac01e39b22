/** Asks `decide` about a fault of the current turn, with the whole turn's budget: the budget is read here, and nowhere else. */
import { decide, type Decision, type FaultReport, type Situation } from '@breakfall/faults'
import { deadlineAt } from '../turn/next.ts'
import type { TurnFold } from '../turn/state.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'

/** `so` is what only the caller knows; without it the fault is one that nobody tries again in place. */
export function decideFor(
  ports: Ports,
  { policy }: LiveSession,
  turn: TurnFold,
  fault: FaultReport,
  so: Partial<Situation> = {},
): Decision {
  const { failures, waitedMs, parks, parkedMs, compacted } = turn.budget
  const situation: Situation = {
    attempt: policy.attemptsMax,
    failures: failures + 1,
    waitedMs,
    parks,
    parkedMs,
    compacted,
    deadlineAt: deadlineAt(turn, policy),
    canPark: true,
    dice: ports.dice(),
    ...so,
  }
  return decide(fault, situation, policy, ports.now())
}
