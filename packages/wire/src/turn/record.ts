/**
 * What lists and reports say about a turn, from its events: which they are, a mark for each step and fault, the tools it used, the
 * files they changed. Pure, and bounded however long the turn is.
 */
import type { SessionEvent, SessionEventOf } from '../events.ts'
import type { EventType } from '../names.ts'
import { isDaemonShutdown } from './wait.ts'

export type TurnRecord = {
  /** Its events in the journal, except for those that come by the hundred. */
  readonly firstSeq: number
  readonly lastSeq: number
  /** One character per step, fault, park, takeover and unknown outcome: the newest ones. */
  readonly marks: string
  /** How often each was called. */
  readonly tools: Readonly<Record<string, number>>
  /** By the tools that name the file, until the end of the turn says what commands changed, too. */
  readonly filesChanged: readonly string[]
  /** A tool was called that may change files without naming them. At the end: not all of that is known. */
  readonly filesUnknown: boolean
  /** Execs whose output the model read only in part: the newest ones. */
  readonly longOutputs: readonly string[]
  /** Calls without a result, and the file that a call will have changed if it succeeds. */
  readonly open: Readonly<Record<string, { readonly execId: string; readonly path?: string }>>
}

export const firstRecord = (seq: number): TurnRecord => ({
  firstSeq: seq,
  lastSeq: seq,
  marks: '',
  tools: {},
  filesChanged: [],
  filesUnknown: false,
  longOutputs: [],
  open: {},
})

/** A turn names no more. */
export const FILES_MAX = 100

export function recordAfter(record: TurnRecord, event: SessionEvent): TurnRecord {
  if (BY_THE_HUNDRED.has(event.type)) return record
  const marks = (record.marks + markOf(event)).slice(-MARKS_MAX)
  return { ...record, ...changesOf(record, event), marks, lastSeq: event.seq }
}

// ---- details, in the order they are used above ----

const BY_THE_HUNDRED: ReadonlySet<EventType> = new Set([
  'text-delta',
  'reasoning-delta',
  'tool-draft',
  'tool-output',
  'model-server',
] satisfies EventType[])

const MARKS_MAX = 64

function markOf(event: SessionEvent): string {
  if (event.type === 'parked') return isDaemonShutdown(event.fault.category) ? '' : 'p'
  if (event.type === 'tool-result') return event.outcome === 'unknown' ? '?' : ''
  return MARKS[event.type] ?? ''
}

const MARKS: Readonly<Partial<Record<EventType, string>>> = { 'step-start': '-', retry: 'x', 'taken-over': 'k' }

function changesOf(record: TurnRecord, event: SessionEvent): Partial<TurnRecord> {
  if (event.type === 'tool-call') return called(record, event)
  if (event.type === 'tool-result') return resulted(record, event)
  if (event.type !== 'turn-end' && event.type !== 'turn-error') return {}
  const { filesChanged, filesUnknown } = event
  if (filesChanged === undefined) return filesUnknown === undefined ? {} : { filesUnknown }
  return { filesChanged, filesUnknown: filesUnknown ?? false }
}

const LONG_OUTPUTS_MAX = 10
const HIDES_NO_CHANGE: ReadonlySet<string> = new Set(['read', 'write', 'edit', 'process'])

function called(
  record: TurnRecord,
  { tool, callId, execId, arguments: { path } }: SessionEventOf<'tool-call'>,
): Partial<TurnRecord> {
  const writes = (tool === 'write' || tool === 'edit') && typeof path === 'string'
  return {
    tools: { ...record.tools, [tool]: (own(record.tools, tool) ?? 0) + 1 },
    open: { ...record.open, [callId]: writes ? { execId, path } : { execId } },
    filesUnknown: record.filesUnknown || !HIDES_NO_CHANGE.has(tool),
  }
}

function resulted(record: TurnRecord, event: SessionEventOf<'tool-result'>): Partial<TurnRecord> {
  const { callId, outcome } = event
  const call = own(record.open, callId)
  const { [callId]: _, ...open } = record.open
  const { filesChanged, longOutputs } = record
  const path = call?.path
  const isNew = path !== undefined && outcome === 'ok' && !filesChanged.includes(path)
  return {
    open,
    longOutputs:
      call !== undefined && isLong(event) ? [...longOutputs, call.execId].slice(-LONG_OUTPUTS_MAX) : longOutputs,
    filesChanged: isNew && filesChanged.length < FILES_MAX ? [...filesChanged, path] : filesChanged,
  }
}

/** Models choose the names of tools and calls, and `constructor` is one. */
const own = <T>(entries: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(entries, name) ? entries[name] : undefined

/** As the daemon marks what the model does not read. */
const isLong = ({ exit, text }: SessionEventOf<'tool-result'>): boolean =>
  exit != null && /\n\[… \d+ bytes left out …\]\n/.test(text)
