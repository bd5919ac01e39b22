/**
 * Looks into a state folder's journal without being its owner: for whoever wants to see what is there while no daemon runs.
 *
 * I1  Nothing is written and no lock is taken: a daemon may run, start or die meanwhile.
 * I2  What a damaged session holds is never shown as if it were whole; it looks as it does over the API.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Fault } from '@breakfall/faults'
import { type AnyEvent, parseEvent, type Session, type Turn } from '@breakfall/wire'
import { sessionView } from '../turn/view.ts'
import { storeFault } from './sqlite-commit.ts'
import { SqliteJournal } from './sqlite-journal.ts'
import { SCHEMA_VERSION } from './sqlite-open.ts'
import type { SessionRow } from './store.ts'

export type JournalReader = Disposable & {
  /** Newest first. */
  sessions(): Iterable<Session>
  session(id: string): Session | undefined
  /** As of the last event in the journal. One that was under way may still say `running`: nobody says whether it does. */
  turn(id: string): Turn | undefined
  events(sessionId: string, after: number): Iterable<AnyEvent>
}

/** Undefined where there is no journal yet. `modelName` is what sessions without a model of their own use. */
export function readJournal(stateDir: string, modelName: string): JournalReader | undefined {
  const file = join(stateDir, 'journal', 'journal.db')
  if (!existsSync(file)) return undefined
  const db = opened(file)
  const journal = new SqliteJournal(db)
  const view = (row: SessionRow): Session =>
    sessionView(row.quarantined === null ? row : { ...row, state: 'idle', turnId: null }, modelName) // I2
  return {
    *sessions() {
      for (let after: string | undefined; ;) {
        const rows = journal.listSessions({ after, limit: PAGE_ROWS })
        yield* rows.map(view)
        after = rows.at(-1)?.id
        if (rows.length < PAGE_ROWS) return
      }
    },
    session: (id) => {
      const row = journal.getSession(id)
      return row === undefined ? undefined : view(row)
    },
    turn: (id) => {
      const row = journal.getTurn(id)
      if (row === undefined || row.view.endedAt !== null) return row?.view
      const { quarantined = null } = journal.getSession(row.sessionId) ?? {}
      return quarantined === null ? row.view : { ...row.view, state: 'failed', parked: null, fault: quarantined } // I2
    },
    *events(sessionId, after) {
      for (let seq = after; ;) {
        const events = atOneTime(db, () => journal.read(sessionId, seq, PAGE_ROWS, PAGE_CHARS_MAX))
        for (const { body } of events) yield parseEvent(JSON.parse(body))
        if (events.length === 0) return
        seq = events.at(-1)?.seq ?? seq
      }
    },
    [Symbol.dispose]: () => db.close(),
  }
}

// ---- details ----

const PAGE_ROWS = 500
const PAGE_CHARS_MAX = 4 * 1024 * 1024

/** Reading needs a little room, too: for the index of what is not yet in the main file. */
function unreadable(cause: unknown, file: string): Fault {
  const fault = storeFault(cause)
  return fault.category === 'journal_full'
    ? fault.with({
        error: `the journal ${file} cannot be read: the disk is full, or the folder read-only; make some room`,
      })
    : new Fault('journal_corrupt', { error: `the journal ${file} cannot be read`, cause })
}

/** A page takes several looks; the session may be deleted between two of them. */
function atOneTime<T>(db: DatabaseSync, look: () => T): T {
  db.exec('BEGIN')
  try {
    return look()
  } finally {
    db.exec('COMMIT')
  }
}

function opened(file: string): DatabaseSync {
  let db: DatabaseSync | undefined
  let version: number
  try {
    db = new DatabaseSync(file, { readOnly: true }) // I1
    version = Number(db.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0)
  } catch (cause) {
    db?.close()
    throw unreadable(cause, file)
  }
  if (version === SCHEMA_VERSION) return db
  db.close()
  const [whose, remedy] =
    version < SCHEMA_VERSION
      ? ['an earlier version', 'a daemon of this version moves it over when it starts']
      : ['a newer version', 'read it with that one']
  throw new Fault('journal_corrupt', {
    error: `the journal ${file} was written by ${whose} (schema ${version}, this one knows ${SCHEMA_VERSION}); ${remedy}.`,
  })
}
