/**
 * Sessions as lines of text, to move them from one store to another with their hashes. A dump is checked while it is written and while
 * it is read: a damaged session stops it.
 *
 * I1  What is imported is byte for byte what was exported: every event keeps its epoch, its body and its hash.
 * I2  A session that is in the target already is skipped if it is the same, and refused if it is not.
 */
import { Fault } from '@breakfall/faults'
import { messageOf } from '@breakfall/faults/internal'
import { CHAIN_START, isLink } from './chain.ts'
import type { SessionRow } from '../rows.ts'
import type { KeyRow, TurnRow } from './store.ts'

export type DumpedEvent = {
  readonly seq: number
  readonly epoch: number
  readonly type: string
  readonly turnId: string
  readonly body: string
  readonly hash: string
}

export type DumpedSession = {
  readonly session: SessionRow
  readonly events: readonly DumpedEvent[]
  readonly turns: readonly TurnRow[]
  readonly keys: readonly KeyRow[]
}

/** Where sessions come from, oldest first, and where they go. */
export type DumpSource = {
  sessions(): AsyncIterable<DumpedSession>
  /** Rows that `sessions` does not reach, though nothing is being deleted. */
  strays(): AsyncIterable<Stray>
  close(): Promise<void>
}

/** A session that cannot be opened, or events that belong to no session. */
export type Stray = { readonly id: string; readonly what: 'no head' | 'no session' | 'events after its end' }

export type DumpTarget = {
  /** The seq and the hash of its last event. Undefined if it is not there. */
  head(id: string): Promise<{ readonly lastSeq: number; readonly hash: string } | undefined>
  put(session: DumpedSession): Promise<void>
  close(): Promise<void>
}

export type Dumped = { readonly sessions: number; readonly events: number; readonly skipped: number }

/** Writes a line for each session, and one at the end that says how many there were. */
export async function exportSessions(source: DumpSource, write: (line: string) => Promise<void>): Promise<Dumped> {
  const dumped = { sessions: 0, events: 0, skipped: 0 }
  await write(JSON.stringify({ breakfall: 'sessions', version: VERSION }))
  for await (const session of source.sessions()) {
    verify(session)
    await write(JSON.stringify(session))
    dumped.sessions += 1
    dumped.events += session.events.length
  }
  await write(JSON.stringify({ end: true, sessions: dumped.sessions }))
  return dumped
}

export async function importSessions(lines: AsyncIterable<string>, target: DumpTarget): Promise<Dumped> {
  const dumped = { sessions: 0, events: 0, skipped: 0 }
  let isStarted = false
  let isEnded = false
  for await (const line of lines) {
    if (line === '') continue
    const value: unknown = parsed(line)
    if (!isStarted) isStarted = isHeader(value) || refuse('it does not start with the header of an export')
    else if (isEnd(value)) {
      isEnded = value.sessions === dumped.sessions + dumped.skipped || refuse('sessions are missing')
    } else if (isSession(value)) {
      const as = await imported(value, target)
      dumped[as] += 1
      if (as === 'sessions') dumped.events += value.events.length
    } else refuse('a line is not a session')
  }
  if (!isEnded) refuse('its end is missing')
  return dumped
}

/** Reads everything and says what is wrong. */
export async function checkSessions(
  source: DumpSource & Pick<DumpTarget, 'head'>,
): Promise<Dumped & { readonly problems: readonly string[] }> {
  const dumped = { sessions: 0, events: 0, skipped: 0 }
  const problems: string[] = []
  for await (const session of source.sessions()) {
    dumped.sessions += 1
    dumped.events += session.events.length
    try {
      verify(session)
      const head = await source.head(session.session.id)
      const isMoved = head?.lastSeq !== session.session.lastSeq // a daemon wrote meanwhile, or deleted it
      if (!isMoved && head.hash !== endOf(session)) damaged(session.session.id, head.lastSeq)
    } catch (error) {
      problems.push(messageOf(error))
    }
  }
  for await (const { id, what } of source.strays()) problems.push(STRAYS[what](id))
  return { ...dumped, problems }
}

// ---- details, in the order they are used above ----

const VERSION = 1

const STRAYS: Readonly<Record<Stray['what'], (id: string) => string>> = {
  'no head': (id) => `Session ${id} has no head: no daemon can open it. Restore it from a backup, or delete its row.`,
  'no session': (id) => `Events of session ${id} are there, but the session is not. Restore it, or delete the events.`,
  'events after its end': (id) =>
    `Session ${id} has events after its last one: its next event cannot be written. Restore it, or delete those events.`,
}

function verify({ session, events }: DumpedSession): void {
  let hash = CHAIN_START
  let epoch = 0
  for (const [index, event] of events.entries()) {
    if (event.seq !== index + 1 || event.epoch < epoch || !isLink(hash, event, event.hash))
      damaged(session.id, index + 1)
    hash = event.hash
    epoch = event.epoch // an earlier owner that writes later
  }
  if (events.length !== session.lastSeq) damaged(session.id, events.length + 1)
}

async function imported(session: DumpedSession, target: DumpTarget): Promise<'sessions' | 'skipped'> {
  verify(session) // I1
  if (await isThere(session, target)) return 'skipped'
  try {
    await target.put(session)
  } catch (error) {
    if (await isThere(session, target)) return 'skipped' // another import was faster
    throw error
  }
  return 'sessions'
}

/** I2 */
async function isThere(session: DumpedSession, target: DumpTarget): Promise<boolean> {
  const { id, lastSeq } = session.session
  const there = await target.head(id)
  if (there === undefined) return false
  const isSame = there.lastSeq === lastSeq && there.hash === endOf(session)
  return isSame || refuse(`session ${id} is there already, with other events`)
}

const endOf = ({ events }: DumpedSession): string => events.at(-1)?.hash ?? CHAIN_START

function damaged(id: string, seq: number): never {
  throw new Fault('journal_corrupt', { facts: { name: `session ${id}`, detail: `the first bad event is ${seq}` } })
}

function refuse(why: string): never {
  throw new Fault('invalid_request', {
    error: `The export cannot be imported: ${why}. What was imported before stays.`,
  })
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined // cut off, or not an export
  }
}

const isHeader = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'breakfall' in value && 'version' in value && value.version === VERSION

const isEnd = (value: unknown): value is { readonly sessions: number } =>
  typeof value === 'object' && value !== null && 'end' in value

const isSession = (value: unknown): value is DumpedSession =>
  typeof value === 'object' && value !== null && 'session' in value && 'events' in value && Array.isArray(value.events)
