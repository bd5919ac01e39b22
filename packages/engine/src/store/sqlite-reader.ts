/**
 * Reads a state folder's journal without owning it, for example while no daemon runs.
 *
 * I1  It writes nothing and takes no lock: a daemon may run, start or die at the same time.
 * I2  A damaged session is never shown as if it were intact; it looks the same as over the API.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Fault, faultFrom } from '@breakfall/faults'
import { type AnyEvent, parseEvent, type Session, type SessionList, type Turn } from '@breakfall/wire'
import { sessionPage, sessionView } from '../turn/view.ts'
import { storeFault } from './store-fault.ts'
import { SqliteJournal } from './sqlite-journal.ts'
import { SCHEMA_VERSION } from './sqlite-open.ts'
import type { SessionRow } from '../rows.ts'
import type { SessionSelection, StoredEvent, TurnRow } from './store.ts'

export type JournalReader = Disposable & {
  /** Newest first: one page, as over the API. */
  sessions(selection: SessionSelection): SessionList
  /** The session's turns, newest first. */
  turns(sessionId: string, page: { readonly before?: string | undefined; readonly limit: number }): readonly Turn[]
  session(id: string): Session | undefined
  /** As of the last event in the journal. It may say `running` although no daemon works on it. */
  turn(id: string): Turn | undefined
  events(sessionId: string, after: number): Iterable<AnyEvent>
  /** How many sessions there are, and how many of them, with how many bytes of events, were created since that time. */
  usage(since: string): { readonly sessions: number; readonly recentSessions: number; readonly recentBytes: number }
  /** Reads every session to its end, newest first, until `isOver`. */
  check(isOver: () => boolean): {
    readonly checked: number
    readonly damaged: readonly DamagedSession[]
    readonly isWhole: boolean
  }
}

export type DamagedSession = { readonly sessionId: string; readonly fault: Fault }

/** Undefined if there is no journal yet. `modelName` is the model of sessions that name none. */
export function readJournal(stateDir: string, modelName: string): JournalReader | undefined {
  const file = join(stateDir, 'journal', 'journal.db')
  if (!existsSync(file)) return undefined
  const db = opened(file)
  const journal = new SqliteJournal(db, '')
  const view = (row: SessionRow): Session =>
    sessionView(row.quarantined === null ? row : { ...row, state: 'idle', turnId: null }, modelName) // I2
  const shown = ({ sessionId, view: turn }: TurnRow): Turn => {
    if (turn.endedAt !== null) return turn
    const { quarantined = null } = journal.getSession(sessionId) ?? {}
    return quarantined === null ? turn : { ...turn, state: 'failed', parked: null, fault: quarantined } // I2
  }
  const eventsAfter = (sessionId: string, after: number): readonly StoredEvent[] =>
    reading(() => inOneSnapshot(db, () => journal.read(sessionId, after, PAGE_ROWS, PAGE_CHARS_MAX)))
  /** Throws if anything of it is damaged: what lists show, its turns, or an event. */
  const check = (row: SessionRow): void => {
    if (row.quarantined !== null) throw faultFrom(row.quarantined)
    reading(() => journal.listTurns(row.id, { limit: PAGE_ROWS }))
    for (let seq = 0; ;) {
      const next = eventsAfter(row.id, seq).at(-1)?.seq
      if (next === undefined) return
      seq = next
    }
  }
  return {
    sessions: (selection) =>
      reading(() => {
        const { rows, counts } = journal.listSessions({ ...selection, limit: selection.limit + 1 })
        return sessionPage(rows.map(view), selection.limit, counts)
      }),
    turns: (sessionId, page) => reading(() => journal.listTurns(sessionId, page).map(shown)),
    session: (id) =>
      reading(() => {
        const row = journal.getSession(id)
        return row === undefined ? undefined : view(row)
      }),
    turn: (id) =>
      reading(() => {
        const row = journal.getTurn(id)
        return row === undefined ? undefined : shown(row)
      }),
    *events(sessionId, after) {
      for (let seq = after; ;) {
        const events = eventsAfter(sessionId, seq)
        for (const { body } of events) yield parseEvent(JSON.parse(body))
        if (events.length === 0) return
        seq = events.at(-1)?.seq ?? seq
      }
    },
    usage: (since) =>
      reading(() => {
        const recent = journal.usage('', since)
        return { sessions: journal.usage('').sessions, recentSessions: recent.sessions, recentBytes: recent.bytes }
      }),
    check: (isOver) => {
      const damaged: DamagedSession[] = []
      let checked = 0
      for (let after: string | undefined; ;) {
        const { rows } = reading(() => journal.listSessions({ limit: CHECK_ROWS, after }))
        for (const row of rows) {
          if (isOver()) return { checked, damaged, isWhole: false }
          try {
            check(row)
          } catch (thrown) {
            damaged.push({ sessionId: row.id, fault: storeFault(thrown) })
          }
          checked += 1
        }
        if (rows.length < CHECK_ROWS) return { checked, damaged, isWhole: true }
        after = rows.at(-1)?.id
      }
    },
    [Symbol.dispose]: () => db.close(),
  }
}

// ---- details ----

const PAGE_ROWS = 500
const CHECK_ROWS = 100

/** Its own faults, and those of SQLite with their category. */
function reading<T>(read: () => T): T {
  try {
    return read()
  } catch (thrown) {
    throw storeFault(thrown)
  }
}
const PAGE_CHARS_MAX = 4 * 1024 * 1024
const BUSY_MS = 5_000 // a daemon that ends locks the journal for a moment

/** Reading needs some disk space, too: SQLite writes an index of its log. */
function unreadable(cause: unknown, file: string): Fault {
  const fault = storeFault(cause)
  return fault.category === 'journal_full'
    ? fault.with({
        error: `the journal ${file} cannot be read: the disk is full or the folder is read-only; free some space`,
      })
    : new Fault('journal_corrupt', { message: { happened: `The journal ${file} cannot be read.` }, cause })
}

/** A page takes several queries; the session may be deleted between two of them. */
function inOneSnapshot<T>(db: DatabaseSync, read: () => T): T {
  db.exec('BEGIN')
  try {
    return read()
  } finally {
    db.exec('COMMIT')
  }
}

function opened(file: string): DatabaseSync {
  let db: DatabaseSync | undefined
  let version: number
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_MS }) // I1
    version = Number(db.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0)
  } catch (cause) {
    db?.close()
    throw unreadable(cause, file)
  }
  if (version === SCHEMA_VERSION) return db
  db.close()
  const [whose, remedy] =
    version < SCHEMA_VERSION
      ? ['an earlier version', 'a daemon of this version migrates it when it starts']
      : ['a newer version', 'read it with that one']
  throw new Fault('journal_corrupt', {
    error: `the journal ${file} was written by ${whose} (schema ${version}, this version knows ${SCHEMA_VERSION}); ${remedy}.`,
  })
}
