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
  new Fault('quota_exceeded', {
    boundary: 'daemon',
    next: 'park',
    reason: 'steps_spent',
    message: {
      happened: `The turn has used its ${stepsMax} step${stepsMax === 1 ? '' : 's'} and is not finished.`,
      advice:
        'Resume it or send another prompt to continue; --steps-max (stepsMax in a config or a request) allows more.',
    },
  })
