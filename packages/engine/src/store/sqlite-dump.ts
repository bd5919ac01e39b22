/** The sessions of a state folder, to be exported, checked or imported. Needs the folder for itself: no daemon may run on it. */
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Fault } from '@breakfall/faults'
import { faultNotesIn } from '../turn/fault-history.ts'
import { CHAIN_START } from './chain.ts'
import type { DumpedEvent, DumpedSession, DumpSource, DumpTarget, Stray } from './dump.ts'
import { eventsOf, type JournalEnd, SqliteEvents } from './sqlite-events.ts'
import { SqliteFaults } from './sqlite-faults.ts'
import { SqliteJournal } from './sqlite-journal.ts'
import { lockFolder, openDatabase, SEQS_PER_SESSION } from './sqlite-open.ts'
import { numberIn, Statements, textIn, textOrNullIn } from './sqlite-statements.ts'
import { SqliteTurns } from './sqlite-turns.ts'

export function openSqliteDump(stateDir: string, { create = false } = {}): DumpSource & DumpTarget {
  const folder = join(stateDir, 'journal')
  const file = join(folder, 'journal.db')
  if (!create && !existsSync(file)) throw new Fault('not_found', { facts: { name: `journal in ${stateDir}` } })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const owner = lockFolder(folder)
  const db = openDatabase(file)
  return new SqliteDump(db, () => {
    db.close()
    owner.release()
  })
}

// ---- details ----

const TURNS_MAX = 1_000_000

const HEADLESS = 'SELECT id FROM sessions LEFT JOIN heads USING (sid) WHERE heads.sid IS NULL ORDER BY sid'

/** Events of deleted sessions are removed in portions, also by a later start. */
const STRAY_EVENTS = `
SELECT e.sid, s.id FROM
  (SELECT key / ${SEQS_PER_SESSION} AS sid, max(key % ${SEQS_PER_SESSION}) AS seq FROM events GROUP BY 1) e
  LEFT JOIN sessions s ON s.sid = e.sid LEFT JOIN heads h ON h.sid = e.sid
WHERE e.sid NOT IN (SELECT sid FROM removed) AND (s.sid IS NULL OR e.seq > h.last_seq) ORDER BY e.sid`

class SqliteDump implements DumpSource, DumpTarget {
  readonly #db: DatabaseSync
  readonly #sql: Statements
  readonly #journal: SqliteJournal
  readonly #close: () => void

  constructor(db: DatabaseSync, close: () => void) {
    this.#db = db
    this.#sql = new Statements(db)
    this.#journal = new SqliteJournal(db, '')
    this.#close = close
  }

  async *sessions(): AsyncGenerator<DumpedSession> {
    for (const row of this.#sql.all('SELECT id FROM sessions ORDER BY sid')) {
      const session = this.#journal.getSession(textIn(row, 'id'))
      if (session === undefined) continue
      const turns = this.#journal.listTurns(session.id, { limit: TURNS_MAX })
      yield await Promise.resolve({ session, events: this.#events(session.id), turns, keys: this.#keys(session.id) })
    }
  }

  async *strays(): AsyncGenerator<Stray> {
    for (const row of this.#sql.all(HEADLESS)) yield await Promise.resolve({ id: textIn(row, 'id'), what: 'no head' })
    for (const row of this.#sql.all(STRAY_EVENTS)) {
      const id = textOrNullIn(row, 'id')
      if (id === null) yield { id: `number ${numberIn(row, 'sid')}`, what: 'no session' }
      else yield { id, what: 'events after its end' }
    }
  }

  head(id: string): ReturnType<DumpTarget['head']> {
    return Promise.resolve(this.#journal.heads([id])[0])
  }

  put({ session, events, turns, keys }: DumpedSession): Promise<void> {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      this.#journal.createSession(session)
      const { quarantined, turn, updatedAt, state, turnId, epoch, id } = session
      this.#sql.run('UPDATE sessions SET epoch=?, state=?, turn_id=? WHERE id=?', epoch, state, turnId, id)
      this.#write(id, events)
      const sid = Number(this.#sql.get('SELECT sid FROM sessions WHERE id=?', id)?.['sid'])
      const views = new SqliteTurns(this.#sql)
      for (const each of turns) views.put(sid, each)
      views.putSummary(sid, { turn, updatedAt })
      new SqliteFaults(this.#sql).write(sid, faultNotesIn(events.map(({ body }) => body)))
      for (const { scope, key, requestHash, receipt } of keys)
        this.#sql.run(
          'INSERT INTO keys(scope, key, request_hash, receipt) VALUES (?,?,?,?)',
          scope,
          key,
          requestHash,
          receipt,
        )
      if (quarantined !== null) this.#journal.quarantine(id, quarantined)
      this.#db.exec('COMMIT')
      return Promise.resolve()
    } catch (error) {
      this.#db.exec('ROLLBACK')
      return Promise.reject(error)
    }
  }

  close(): Promise<void> {
    this.#close()
    return Promise.resolve()
  }

  #events(id: string): readonly DumpedEvent[] {
    const [row] = this.#sql.all('SELECT sid, last_seq, head FROM sessions JOIN heads USING (sid) WHERE id=?', id)
    if (row === undefined) return []
    const all = new SqliteEvents(this.#sql)
    const session = eventsOf(row)
    return all.find(session, 0, session.lastSeq).ids.map((at) => all.at(at))
  }

  #keys(scope: string): DumpedSession['keys'] {
    const rows = this.#sql.all('SELECT key, request_hash, receipt FROM keys WHERE scope=?', scope)
    return rows.map((row) => ({
      scope,
      key: textIn(row, 'key'),
      requestHash: textIn(row, 'request_hash'),
      receipt: textIn(row, 'receipt'),
    }))
  }

  /** Each epoch's events as their owner wrote them: the hashes come out the same, or it is refused. */
  #write(id: string, events: readonly DumpedEvent[]): void {
    const rows = this.#sql.all('SELECT sid, last_seq, head FROM sessions JOIN heads USING (sid) WHERE id=?', id)
    const all = new SqliteEvents(this.#sql)
    let end: JournalEnd = { id, ...eventsOf(rows[0] ?? {}), hash: CHAIN_START, epoch: 0, bytes: 0, isMoved: false }
    for (const event of events) {
      if (event.epoch !== end.epoch) {
        all.flush()
        all.takeMoved()
        end = { ...end, epoch: event.epoch, isMoved: false }
      }
      all.write(end, [event])
    }
    all.flush()
    all.takeMoved()
    if (end.hash === (events.at(-1)?.hash ?? CHAIN_START)) return
    throw new Fault('invalid_request', {
      error: `Session ${id} was written by a first version and can only be imported into PostgreSQL.`,
    })
  }
}
