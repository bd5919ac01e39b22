/** Trying is over for now: `decide` has said to park or to stop. Thrown by performers, carried out by the engine. */
import type { Decision, FaultReport } from '@breakfall/faults'

export class GivenUp extends Error {
  readonly fault: FaultReport
  readonly decision: Extract<Decision, { action: 'park' | 'stop' }>

  constructor(fault: FaultReport, decision: Extract<Decision, { action: 'park' | 'stop' }>) {
    super(fault.error)
    this.fault = fault
    this.decision = decision
  }
}
