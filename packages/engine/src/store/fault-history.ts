/**
 * Faults by fingerprint: one small row for each occurrence, written in the commit of its event and removed with its session. So the
 * count of a group equals the number of its occurrences and of the events in the journals.
 */
import type { FaultFate, SeenFault } from '../turn/fault-history.ts'

export type FaultSelection = {
  readonly since?: string | undefined
  readonly class?: string | undefined
  /** Only groups with an occurrence that is open or parked. */
  readonly isOpen?: boolean | undefined
  readonly fingerprint?: string | undefined
  /** Only groups after this one, in the order of the list. */
  readonly after?: { readonly lastAt: string; readonly fingerprint: string } | undefined
  readonly limit: number
  /** The first of the 24 hours that are counted one by one, as `2026-11-15T12`. */
  readonly hoursFrom: string
}

/** Latest first. */
export type FaultGroup = {
  readonly fingerprint: string
  readonly count: number
  readonly sessions: number
  readonly firstAt: string
  readonly lastAt: string
  readonly fates: Readonly<Record<FaultFate, number>>
  /** The latest occurrence. */
  readonly sample: FaultOccurrence
  /** How many there were in an hour, by its name. */
  readonly hours: Readonly<Record<string, number>>
}

export type FaultOccurrence = SeenFault & { readonly sessionId: string; readonly sessionTitle: string | null }

export type OccurrenceSelection = {
  readonly fingerprint: string
  readonly since?: string | undefined
  /** Only those before this one, in the order of the list. */
  readonly after?: { readonly at: string; readonly sessionId: string; readonly seq: number } | undefined
  readonly limit: number
}
