/** How a turn is, from its events: its state, its faults, the retry that it waits for. Pure, and bounded however long the turn is. */
import type { SessionEvent } from '../events.ts'
import type { EventType, TurnState } from '../names.ts'
import { countFaults, type FaultCount, NO_FAULTS } from './faults.ts'
import { isDaemonShutdown } from './wait.ts'

export type TurnStatus = {
  readonly state: TurnState
  readonly faults: FaultCount
  /** The retry that it waits for. */
  readonly retry: RetryWait | null
  readonly unknownOutcomes: number
}

export type RetryWait = {
  readonly attempt: number
  readonly max: number
  readonly nextAt: string
  readonly category: string
}

export const FIRST_STATUS: TurnStatus = { state: 'queued', faults: NO_FAULTS, retry: null, unknownOutcomes: 0 }

export function statusAfter(status: TurnStatus, event: SessionEvent): TurnStatus {
  const retry = retryAfter(status, event)
  const state = stateAfter(status, event, retry)
  const faults = countFaults(status.faults, event)
  const isUnknown = event.type === 'tool-result' && event.outcome === 'unknown'
  const isSame = retry === status.retry && state === status.state && faults === status.faults && !isUnknown
  return isSame ? status : { state, faults, retry, unknownOutcomes: status.unknownOutcomes + (isUnknown ? 1 : 0) }
}

/** When it tries again, if it waits for that. */
export const retryAt = ({ retry }: Pick<TurnStatus, 'retry'>): number | null =>
  retry === null ? null : Date.parse(retry.nextAt)

// ---- details, in the order they are used above ----

/** These say nothing about whether the turn works. */
const ASIDE: ReadonlySet<EventType> = new Set(['part-discarded', 'box-moved', 'model-server'])

/** The end of a daemon does not shorten the wait: a server may have asked for it, and the next daemon waits for the rest. */
function retryAfter({ retry }: TurnStatus, event: SessionEvent): RetryWait | null {
  if (event.type === 'retry') {
    const { attempt, max, nextAt, fault } = event
    return { attempt, max, nextAt, category: fault.category }
  }
  if (ASIDE.has(event.type) || (event.type === 'parked' && isDaemonShutdown(event.fault.category))) return retry
  const isNewDaemon = event.type === 'taken-over' || (event.type === 'resumed' && event.because === 'restart')
  return isNewDaemon && retry !== null && Date.parse(retry.nextAt) > Date.parse(event.at) ? retry : null
}

function stateAfter({ state }: TurnStatus, event: SessionEvent, retry: RetryWait | null): TurnState {
  if (event.type === 'turn-queued') return 'queued'
  if (event.type === 'turn-end') return 'finished'
  if (event.type === 'turn-error') return event.category === 'cancelled' ? 'cancelled' : 'failed'
  // An approval is answered, and a call of a cancelled turn ends, while the turn is parked.
  if (event.type === 'parked' || (state === 'parked' && event.type !== 'resumed')) return 'parked'
  return ASIDE.has(event.type) ? state : retry === null ? 'running' : 'retrying'
}
