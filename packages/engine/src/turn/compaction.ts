/**
 * Shortens a conversation: first the oldest tool results become short notes, then the oldest steps become a summary. Pure.
 *
 * I1  Prompts and the newest step stay whole.
 * I2  A plan makes the request shorter, or there is no plan. A summary is cut to half of what it replaces.
 * I3  Every tool call that stays has a result, and every result its call: servers refuse anything else.
 */
import { cutStart } from '@breakfall/faults/internal'
import type { SessionEventOf } from '@breakfall/wire'
import { conversationBytes, entryBytes } from './messages.ts'
import type { CompactionPlan, Entry, RequestFacts, SessionFold, SummaryPlan, ToolCallRequest } from './state.ts'
import { windowBytes } from './window.ts'

/** A shortening that happened, as its event says. */
export type Compaction = Pick<SessionEventOf<'compacted'>, 'results' | 'summary'>

/** What to shorten before the next request. Null: nothing has to be. */
export function compactionDue(fold: SessionFold, facts: RequestFacts, compactionsMax: number): CompactionPlan | null {
  const { turn } = fold
  if (turn === null) return null
  if (turn.isTooLong) return planCompaction(fold, facts)
  if (turn.isCompacted || turn.answer.budget.compactions >= compactionsMax) return null
  const window = windowBytes(fold, facts)
  const requestBytes = facts.fixedBytes + conversationBytes(fold.entries)
  return window === null || requestBytes <= window * START_AT ? null : planCompaction(fold, facts)
}

/** The plan for a request that is too long. Null: nothing is left to shorten. */
export function planCompaction(fold: SessionFold, facts: RequestFacts): CompactionPlan | null {
  const { entries } = fold
  const newest = newestStep(entries)
  const requestBytes = facts.fixedBytes + conversationBytes(entries)
  const window = Math.min(windowBytes(fold, facts) ?? requestBytes, requestBytes)
  const target = window * AIM_AT - facts.fixedBytes
  const results = resultsToDrop(entries, newest, target)
  const noted = compacted(entries, { results })
  const summary = conversationBytes(noted) <= target ? null : summaryOf(noted, newest, target, window)
  if (results.length === 0 && summary === null) return null
  const chosen = new Set(results)
  const steps = entries
    .filter((entry) => (entry.role === 'tool' && chosen.has(entry.callId)) || entry.seq <= (summary?.upToSeq ?? -1))
    .filter(({ role }) => role !== 'user')
    .map(({ turnId, step }) => (turnId === fold.turn?.id ? step : 0))
  return {
    results,
    summary,
    fromStep: Math.min(...steps),
    toStep: Math.max(...steps),
    requestBytes,
  }
}

/** The conversation after a shortening. */
export function compacted(entries: readonly Entry[], { results = [], summary }: Compaction): readonly Entry[] {
  const noted = results.length === 0 ? entries : withNotes(entries, new Set(results))
  return summary === undefined ? noted : withSummary(noted, summary)
}

// ---- details, in the order they are used above ----

const START_AT = 0.85 // of the window; the rest is for the answer and for what an estimate is wrong by
const AIM_AT = 0.4 // each compaction frees about half of the window: rare enough for prompt caches
const NOTE_FROM_BYTES = 1_024 // shorter results are hardly longer than the note
const SUMMARY_FROM_BYTES = 4_096
const SUMMARY_BYTES_MAX = 16 * 1024
const SUMMARY_REQUEST_SHARE = 0.6 // of the window; its answer and the instructions need room, too

/** Index of the newest answer. It and everything after it stays whole. */
function newestStep(entries: readonly Entry[]): number {
  const at = entries.findLastIndex(({ role }) => role === 'assistant')
  return at === -1 ? entries.length : at // I1
}

function resultsToDrop(entries: readonly Entry[], newest: number, target: number): readonly string[] {
  let bytes = conversationBytes(entries)
  const requests = requestsIn(entries)
  const chosen: string[] = []
  for (const entry of entries.slice(0, newest)) {
    if (bytes <= target) break
    if (entry.role !== 'tool' || entry.isNote === true || entryBytes(entry) < NOTE_FROM_BYTES) continue
    chosen.push(entry.callId)
    bytes -= entryBytes(entry) - entryBytes(noteOf(entry, requests.get(entry.callId)))
  }
  return chosen
}

/** Summarises the oldest steps and keeps as many of the newest as fit into half of what is aimed at. */
function summaryOf(entries: readonly Entry[], newest: number, target: number, window: number): SummaryPlan | null {
  let end = newest
  for (let kept = 0, at = newest - 1; at >= 0; at -= 1) {
    const entry = entries[at]
    if (entry === undefined || entry.role === 'summary') break
    kept += entryBytes(entry)
    if (kept > target / 2) break
    if (entry.role === 'assistant') end = at // I3: between steps
  }
  const covered = entries.slice(0, end).filter(({ role }) => role !== 'user') // I1
  const last = covered.at(-1)
  const bytes = conversationBytes(covered)
  if (last === undefined || bytes < SUMMARY_FROM_BYTES) return null
  const bytesMax = Math.floor(Math.min(SUMMARY_BYTES_MAX, bytes / 2, Math.max(target / 4, 1_024))) // I2
  return {
    entries: entries.slice(0, end),
    upToSeq: last.seq,
    bytesMax,
    requestBytesMax: window * SUMMARY_REQUEST_SHARE,
  }
}

function withNotes(entries: readonly Entry[], results: ReadonlySet<string>): readonly Entry[] {
  const requests = requestsIn(entries)
  return entries.map((entry) =>
    entry.role === 'tool' && entry.isNote !== true && results.has(entry.callId)
      ? noteOf(entry, requests.get(entry.callId))
      : entry,
  )
}

function withSummary(
  entries: readonly Entry[],
  { text, upToSeq }: NonNullable<Compaction['summary']>,
): readonly Entry[] {
  const end = entries.findLastIndex(({ role, seq }) => role !== 'user' && seq <= upToSeq)
  const last = entries[end]
  if (last === undefined) return entries
  const prompts = entries.slice(0, end).filter(({ role }) => role === 'user') // I1
  const { seq, turnId, step } = last
  return [...prompts, { role: 'summary', text, seq, turnId, step }, ...entries.slice(end + 1)]
}

type ToolEntry = Extract<Entry, { role: 'tool' }>

const requestsIn = (entries: readonly Entry[]): ReadonlyMap<string, ToolCallRequest> =>
  new Map(
    entries.flatMap((entry) => (entry.role === 'assistant' ? entry.calls : [])).map((call) => [call.callId, call]),
  )

/** Says what was there, how long it was, how it began and ended, and how to see it again. */
function noteOf(entry: ToolEntry, request: ToolCallRequest | undefined): ToolEntry {
  const tool = request?.tool ?? 'a tool'
  const what = cutStart(JSON.stringify(request?.arguments ?? {}), 160)
  const bytes = Buffer.byteLength(entry.text)
  const head = JSON.stringify(entry.text.slice(0, 120).toWellFormed())
  const tail = JSON.stringify(entry.text.slice(-240).toWellFormed())
  const text = `[Removed to make room: the result of ${tool} ${what}, ${bytes} bytes. It began ${head} and ended ${tail}. ${AGAIN.get(tool) ?? AGAIN_OTHER}]`
  return { ...entry, text, isNote: true }
}

const AGAIN_OTHER = 'The call was made once; look at its effects instead of repeating it.'
const AGAIN: ReadonlyMap<string, string> = new Map([
  ['read', 'Read the file again if you need it.'],
  [
    'bash',
    'The command ran once. If you need its output, run a command that only looks; repeat this one only if that changes nothing.',
  ],
])
