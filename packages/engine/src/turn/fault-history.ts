/**
 * The faults that a session's events report, and what became of them. Pure. A retry, a park, an unknown outcome and the end of a
 * turn are one occurrence each; a question to a person and a cancelled turn are none.
 *
 * I1  Whether events are folded one by one, in batches or all at once makes no difference.
 */
import { FAULTS, type FaultReport, isFaultCategory } from '@breakfall/faults'
import { fingerprint } from '@breakfall/faults/internal'
import { type AnyEvent, type EventType, isKnownEvent, parseEvent, type SessionEvent } from '@breakfall/wire'
import { countsAsFault, isProgress } from '@breakfall/wire/turn'
import type { TurnFold } from './state.ts'

/** Open: not known yet. Survived: the turn made progress later. Ended: the turn ended with it. */
export const FAULT_FATES = ['open', 'parked', 'survived', 'ended'] as const
export type FaultFate = (typeof FAULT_FATES)[number]

export type SeenFault = {
  readonly seq: number
  readonly turnId: string
  readonly at: string
  readonly step: number | null
  readonly attempt: number | null
  readonly fingerprint: string
  readonly category: string
  readonly class: string
  readonly boundary: string
  readonly phase: string | null
  readonly error: string
  readonly errorRaw: string
  readonly became: FaultFate
}

/** What an append says about faults: new ones, and what became of the earlier ones of a turn that are open or parked. */
export type FaultNotes = {
  readonly seen: readonly SeenFault[]
  readonly fates: readonly { readonly turnId: string; readonly became: FaultFate }[]
}

/** `before` is the state of the turn before these events. Returns undefined if the events report no fault; most do not. */
export function faultNotesOf(events: readonly AnyEvent[], before: TurnFold | null = null): FaultNotes | undefined {
  const seen = new Map<number, SeenFault>()
  const fates = new Map<string, FaultFate>()
  const steps = new Map<string, number>(before === null ? [] : [[before.id, before.step]])
  for (const event of events) {
    if (!isKnownEvent(event)) continue
    const { turnId } = event
    if (event.type === 'step-start') steps.set(turnId, event.step)
    const fate = fateAfter(event.type)
    if (fate !== undefined) {
      if (!isFinal(fates.get(turnId))) fates.set(turnId, fate)
      for (const fault of seen.values())
        if (fault.turnId === turnId && !isFinal(fault.became)) seen.set(fault.seq, { ...fault, became: fate })
    }
    const found = faultIn(event, steps.get(turnId) ?? null)
    if (found !== undefined) seen.set(event.seq, found)
  }
  const became = before === null || !hasUnsettled(before) ? undefined : fates.get(before.id)
  if (seen.size === 0 && became === undefined) return undefined
  return {
    seen: [...seen.values()],
    fates: before === null || became === undefined ? [] : [{ turnId: before.id, became }],
  }
}

/** Of a whole journal. An event that cannot be read reports nothing. */
export function faultNotesIn(bodies: readonly string[]): FaultNotes | undefined {
  return faultNotesOf(
    bodies.flatMap((body) => {
      try {
        return [parseEvent(JSON.parse(body))]
      } catch {
        return [] // another version wrote it
      }
    }),
  )
}

// ---- details ----

const RAW_CHARS_MAX = 500

/** Only then can the store have faults that are open or parked. */
const hasUnsettled = ({ status }: TurnFold): boolean => status.faults.open > 0 || status.unknownOutcomes > 0

const isFinal = (fate: FaultFate | undefined): boolean => fate === 'survived' || fate === 'ended'

/** What an event means for the turn's earlier faults. */
function fateAfter(type: EventType): FaultFate | undefined {
  if (isProgress(type)) return 'survived'
  return type === 'turn-error' ? 'ended' : type === 'resumed' ? 'open' : undefined
}

function faultIn(event: SessionEvent, step: number | null): SeenFault | undefined {
  const place = { seq: event.seq, turnId: event.turnId, at: event.at, step, attempt: null }
  if (event.type === 'retry')
    return { ...place, ...described(event.fault), step: event.step, attempt: event.attempt, became: 'open' }
  if (event.type === 'parked')
    return countsAsFault(event) ? { ...place, ...described(event.fault), became: 'parked' } : undefined
  if (event.type === 'tool-result' && event.outcome === 'unknown')
    return { ...place, ...unknown(event.text), became: 'open' }
  if (event.type === 'turn-error' && event.category !== 'cancelled')
    return { ...place, ...described(event), became: 'ended' }
  return undefined
}

type Described = Pick<SeenFault, 'fingerprint' | 'category' | 'class' | 'boundary' | 'phase' | 'error' | 'errorRaw'>

type Reported = Pick<FaultReport, 'class' | 'boundary' | 'phase' | 'error' | 'errorRaw' | 'diagnostics'> & {
  readonly category: string
}

function described(report: Reported): Described {
  const category = isFaultCategory(report.category) ? report.category : 'other'
  return {
    fingerprint: fingerprint({ ...report, category }),
    category: report.category,
    class: report.class,
    boundary: report.boundary,
    phase: report.phase ?? null,
    error: cut(report.error),
    errorRaw: cut(report.errorRaw),
  }
}

/** The model got a text, so there is no report. The first sentence says why. */
function unknown(text: string): Described {
  const row = FAULTS.exec_outcome_unknown
  const [why = text] = text.split('. ', 1)
  const report = { error: text, errorRaw: why, phase: undefined, diagnostics: [] }
  return described({ ...report, category: 'exec_outcome_unknown', class: row.class, boundary: row.boundary })
}

const cut = (text: string): string => text.slice(0, RAW_CHARS_MAX).toWellFormed()
