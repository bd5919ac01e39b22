/**
 * What a parked turn waits for, and whether a person has to act: one value, written into the event that parks the turn and into what
 * lists show of it. Pure.
 *
 * I1  `waitOf` alone decides it. Whoever shows, filters or keeps a parked turn renders its result. Earlier versions wrote no such
 *     value, and theirs follows from the fault that parked the turn.
 * I2  A question to a person and a hand-over to the next daemon are no faults: nothing failed.
 */
import { type FaultCategory, type FaultReport, FAULTS, isFaultCategory } from '@breakfall/faults'
import type { Wait } from '../daemon-api.ts'

export type { Wait }
export type WaitsFor = Wait['for']

/** As much of a report as a list of turns has; more of it tells more. */
export type ParkedFault = { readonly category: string; readonly class: string } & Partial<
  Pick<FaultReport, 'boundary' | 'next' | 'phase' | 'serve'>
>

/** A park, as an event or a list says it. */
export type Park = {
  readonly fault: ParkedFault
  readonly resumeAt?: string | null | undefined
  readonly wait?: Wait | undefined
}

/** I1 */
export function waitOf({ fault, resumeAt, wait }: Park): Wait {
  if (wait !== undefined) return wait
  const question = questionOf({ fault })
  return {
    for: waitsFor(fault),
    ...(question === undefined ? {} : { question }),
    needsPerson: needsPerson({ fault }),
    until: resumeAt ?? null,
    expiresAt: null,
  }
}

/** I1. A person has to act: to answer, or to change something. */
export const needsPerson = ({ fault }: Park): boolean =>
  fault.class === 'needs_action' || questionOf({ fault }) !== undefined

/**
 * What it asks a person. Before `steps_spent`, a turn without steps left parked as `quota_exceeded`, which never parked a turn for
 * another reason.
 */
export const questionOf = ({ fault: { category } }: Park): Wait['question'] =>
  category === 'approval_needed'
    ? 'approval'
    : category === 'steps_spent' || category === 'quota_exceeded'
      ? 'steps'
      : undefined

/** The park of a turn as the API shows it. Null if it is not parked. */
export const parkIn = (turn: ShownTurn | null | undefined): Park | null =>
  turn?.parked == null || turn.fault === null ? null : { ...turn.parked, fault: turn.fault }

type ShownTurn = {
  readonly parked: Omit<Park, 'fault'> | null
  readonly fault: ParkedFault | null
}

export function waitsFor(fault: ParkedFault): WaitsFor {
  const row = isFaultCategory(fault.category) ? FAULTS[fault.category] : undefined
  if (isDaemonShutdown(fault.category)) return 'restart'
  if (questionOf({ fault }) !== undefined) return 'person'
  // Only the journal's own disk can be probed: a runner's disk may be on another machine.
  if (fault.category === 'journal_full') return (fault.boundary ?? row?.boundary) === 'journal' ? 'journal' : 'time'
  const isLookedUp = (fault.next ?? row?.next) === 'resolve' || fault.phase === 'resolve'
  if (fault.category === 'runner_not_available' || isLookedUp) return 'runner'
  if (MODEL_AWAY.has(fault.category) || fault.serve?.state === 'given_up') return 'model'
  return fault.class === 'needs_action' ? 'config' : 'time'
}

/** Whether it may continue before anyone acts: at a time, or because what it waits for is back. */
export function continuesByItself(park: Park): boolean {
  const { for: source, until } = waitOf(park)
  return until !== null || resetsByItself(park.fault) || (source !== 'person' && source !== 'config')
}

/** A quota comes back without anyone's help, or is raised, or another key is set. */
export const resetsByItself = ({ category }: Pick<ParkedFault, 'category'>): boolean =>
  category === 'model_quota_exhausted'

/** A daemon that shuts down parks its turns, and the next one resumes them. It costs neither a park nor an attempt. */
export const isDaemonShutdown = (category: string): boolean => category === 'shutting_down'

/** I2 */
export const countsAsFault = (park: Park): boolean =>
  questionOf(park) === undefined && !isDaemonShutdown(park.fault.category)

// ---- details ----

/** The model server cannot be reached, or the child that serves the model is down. */
const MODEL_AWAY: ReadonlySet<string> = new Set([
  'network_down',
  'model_unreachable',
  'process_failed',
  'process_hung',
  'crash_loop',
] satisfies FaultCategory[])
