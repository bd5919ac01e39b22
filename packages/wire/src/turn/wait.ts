/** What a parked turn waits for, from the fault that parked it. Pure. */
import type { FaultCategory, FaultReport } from '@breakfall/faults'

export type WaitsFor =
  | 'runner' // the runner answers
  | 'model' // the model's address accepts connections
  | 'journal' // there is disk space again
  | 'config' // a key, a token or a setting changed
  | 'time' // nothing to probe: try again later
  | 'restart' // the daemon is back
  | 'person' // a person says so

/** As much of a report as a list of turns or a row of the fault table has; more of it tells more. */
export type ParkedFault = Pick<FaultReport, 'category' | 'class' | 'boundary'> &
  Partial<Pick<FaultReport, 'next' | 'phase' | 'reason' | 'serve'>>

export function waitsFor(fault: ParkedFault): WaitsFor {
  if (fault.category === 'shutting_down') return 'restart'
  if (fault.reason === 'steps_spent' || fault.category === 'approval_needed') return 'person'
  // Only the journal's own disk can be probed: a runner's disk may be on another machine.
  if (fault.category === 'journal_full') return fault.boundary === 'journal' ? 'journal' : 'time'
  if (fault.category === 'runner_not_available' || fault.next === 'resolve' || fault.phase === 'resolve')
    return 'runner'
  if (MODEL_AWAY.has(fault.category) || fault.serve?.state === 'given_up') return 'model'
  return fault.class === 'needs_action' ? 'config' : 'time'
}

/** Whether nothing but a person ends the wait, by an answer or by a change. A quota resets, or is raised, on its own. */
export function needsPerson(fault: ParkedFault): boolean {
  const waits = waitsFor(fault)
  return waits === 'person' || (waits === 'config' && fault.category !== 'model_quota_exhausted')
}

// ---- details ----

/** The model server cannot be reached, or the child that serves the model is down. */
const MODEL_AWAY: ReadonlySet<FaultCategory> = new Set([
  'network_down',
  'model_unreachable',
  'process_failed',
  'process_hung',
  'crash_loop',
] satisfies FaultCategory[])
