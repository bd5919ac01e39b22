/**
 * Which events are faults that a turn may survive, and when it has. Daemon, command line and page all count by this. Pure.
 *
 * I1  A question to a person and a hand-over to the next daemon are no faults: nothing failed.
 * I2  A fault is survived when the turn makes progress after it. The fault that a turn ends or waits with is not.
 */
import type { SessionEvent } from '../events.ts'
import type { EventType } from '../names.ts'
import { countsAsFault } from './wait.ts'

/** I1 */
export const isFault = (event: SessionEvent): boolean =>
  event.type === 'retry' || event.type === 'taken-over' || (event.type === 'parked' && countsAsFault(event))

/** I2. The result of a call is none: a call that a fault ends gets one, too. */
export const isProgress = (type: EventType): boolean =>
  type === 'step-start' || type === 'tool-call' || type === 'compacted' || type === 'turn-end'

export type FaultCount = {
  /** All that the turn has met: those it has survived if it finishes now. */
  readonly met: number
  /** Those since it last made progress. */
  readonly open: number
}

export const NO_FAULTS: FaultCount = { met: 0, open: 0 }

export function countFaults(count: FaultCount, event: SessionEvent): FaultCount {
  if (isProgress(event.type)) return count.open === 0 ? count : { ...count, open: 0 }
  return isFault(event) ? { met: count.met + 1, open: count.open + 1 } : count
}
