/** A turn has used up its steps and nothing has failed: it asks a person whether to continue, or ends if it may not park. */
import { decide, Fault, withDecision } from '@breakfall/faults'
import { deadlineAt } from '../turn/next.ts'
import { stopTurn } from './ending.ts'
import type { LiveSession } from './live-session.ts'
import { parkTurn } from './park.ts'
import type { Ports } from './ports.ts'

export async function askForSteps(ports: Ports, session: LiveSession): Promise<void> {
  const turn = session.currentTurn
  const { policy } = session
  const fault = stepsSpent(policy.stepsMax)
  const situation = { at: 'limit', because: 'steps_spent', deadlineAt: deadlineAt(turn, policy) } as const
  const decision = decide(fault.report, situation, policy, ports.now())
  if (decision.action === 'park') return parkTurn(ports, session, fault.report, null, decision.because)
  await stopTurn(ports, session, [], withDecision(fault, decision).with({ next: 'never' }))
}

// ---- details ----

const stepsSpent = (stepsMax: number): Fault =>
  new Fault('steps_spent', { facts: { limit: `${stepsMax} step${stepsMax === 1 ? '' : 's'}` }, reason: 'steps_spent' })
