/**
 * Every operation of the store as plain SQL on an open database. Synchronous and without transactions: the worker groups many
 * operations into one commit.
 *
 * I1  A session's number is not reused while events of it are left. A deleted session disappears at once; its events are scattered
 *     among all others, and are removed in batches, also after a restart.
 * I2  The key that created a session counts as long as the session exists. Its row may stay for a while: rows are sorted by
 *     key, so finding the one of a session would read all of them.
 */
import type { DatabaseSync } from 'node:sqlite'
import { Fault, type FaultReport } from '@breakfall/faults'
import { SESSION_STATES } from '@breakfall/wire'
import type { Head } from './anchor.ts'
import { CHAIN_START, isLink } from './chain.ts'
import { eventsOf, type EventsOf, type JournalEnd, SqliteEvents } from './sqlite-events.ts'
import { SqliteFaults } from './sqlite-faults.ts'
import type { FaultGroup, FaultOccurrence, FaultSelection, OccurrenceSelection } from './fault-history.ts'
import type { Operations } from './sqlite-protocol.ts'
import { jsonIn, numberIn, type Row, type SqlValue, Statements, textIn, textOrNullIn } from './sqlite-statements.ts'
import { SqliteTurns, type TurnPage } from './sqlite-turns.ts'
import { countQuery, countsIn, pageQuery } from './sqlite-selection.ts'
import { type NewSession, type SessionPage, type SessionRow } from '../rows.ts'
import {
  type Append,
  CREATED,
  type EndedQuery,
  type EndedSession,
  type KeyRow,
  type SessionHead,
  type SessionSelection,
  type StoredEvent,
  type StoreProblem,
  type StoreUsage,
  type TurnRow,
  type Wait,
  type WorkQuery,
} from './store.ts'

export class SqliteJournal implements Operations {
  readonly #db: DatabaseSync
  readonly #sql: Statements
  readonly #events: SqliteEvents
  readonly #turns: SqliteTurns
  readonly #faults: SqliteFaults
  readonly #bootId: string
  /** Where each journal ends: with it, an append reads nothing. Safe to cache, because this is the only writer. */
  readonly #ends = new Map<string, JournalEnd>()
  #deleted: string[] = []

  /** `bootId` is the owner of what is claimed here. */
  constructor(db: DatabaseSync, bootId: string) {
    this.#db = db
    this.#sql = new Statements(db)
    this.#events = new SqliteEvents(this.#sql)
    this.#turns = new SqliteTurns(this.#sql)
    this.#faults = new SqliteFaults(this.#sql)
    this.#bootId = bootId
  }

  createSession(session: NewSession, key?: KeyRow): SessionRow {
    const { id, journal, createdAt, data } = session
    this.#refuseTaken(key)
    const sid = this.#freeSid()
    this.#sql.run(
      'INSERT INTO sessions(sid, id, journal, created_at, updated_at, data) VALUES (?,?,?,?,?,?)',
      sid,
      id,
      journal,
      createdAt,
      createdAt,
      JSON.stringify(data),
    )
    this.#sql.run('INSERT INTO heads(sid) VALUES (?)', sid)
    this.#putKey(key)
    return { ...session, ...FRESH, updatedAt: createdAt }
  }

  getSession(id: string): SessionRow | undefined {
    return this.#sessions('*', 'WHERE id=?', id).map(sessionOf)[0]
  }

  listSessions(selection: SessionSelection): SessionPage {
    const page = pageQuery(selection)
    const rows = this.#sessions('*', page.sql, ...page.values).map(sessionOf)
    if (selection.withCounts !== true) return { rows }
    const counting = countQuery(selection)
    const counts = this.#sql.get(counting.sql, ...counting.values) ?? {}
    return { rows, counts: countsIn(counts) }
  }

  sessionsOfBox(boxId: string): readonly SessionRow[] {
    const named = this.#sessions('*', "WHERE json_extract(data, '$.box.id')=?", boxId).map(sessionOf)
    const own = this.getSession(boxId)
    return own === undefined || own.data.box.id !== undefined ? named : [own, ...named]
  }

  endedSessions({ before, unusedBefore, skip, limit }: EndedQuery): readonly EndedSession[] {
    const rows = this.#sessions(
      'id, updated_at, bytes',
      `WHERE ${IS_ENDED} AND updated_at<? ORDER BY updated_at, sid LIMIT ? OFFSET ?`,
      unusedBefore,
      before ?? NEVER,
      limit,
      skip,
    )
    return rows.map((row) => ({
      id: textIn(row, 'id'),
      updatedAt: textIn(row, 'updated_at'),
      bytes: numberIn(row, 'bytes'),
    }))
  }

  /** Of all sessions, or of those created since that time. */
  usage(unusedBefore: string, since = ''): StoreUsage {
    const [row = {}] = this.#sessions(
      `count(*) AS sessions, coalesce(sum(${IS_ENDED}), 0) AS ended, coalesce(sum(bytes), 0) AS bytes`,
      'WHERE created_at>=?',
      unusedBefore,
      since,
    )
    return { sessions: numberIn(row, 'sessions'), ended: numberIn(row, 'ended'), bytes: numberIn(row, 'bytes') }
  }

  deleteSession(id: string, { ifIdle = false }: { readonly ifIdle?: boolean | undefined } = {}): boolean {
    if (ifIdle && this.getSession(id)?.state !== 'idle') return false
    this.#ends.delete(id)
    const session = this.#eventsOf(id)
    if (session === undefined) return false
    const { sid, lastSeq, head } = session
    this.#sql.run('INSERT INTO removed(sid, last_seq, head) VALUES (?,?,?)', sid, lastSeq, head)
    this.removeSome()
    this.#sql.run('DELETE FROM sessions WHERE sid=?', sid)
    this.#sql.run('DELETE FROM keys WHERE scope=?', id)
    this.#deleted.push(id)
    return true
  }

  // ---- which sessions this opening of the store owns, and when those without an owner are due ----

  claim(id: string): SessionRow | undefined {
    this.#ends.delete(id)
    this.#sql.run('UPDATE sessions SET epoch=epoch+1, owner=?, wait_for=NULL WHERE id=?', this.#bootId, id)
    return this.getSession(id)
  }

  claimWork({ limit, suspects = false }: WorkQuery): readonly SessionRow[] {
    const due = this.#sql.all(
      `SELECT id FROM sessions WHERE state<>'idle' AND quarantined IS NULL AND owner IS NOT ? AND wake_at<=strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
       AND (suspect>=${SUSPECT_MIN})=? ORDER BY suspect, sid LIMIT ?`,
      this.#bootId,
      suspects ? 1 : 0,
      limit,
    )
    return due.flatMap((row) => this.claim(textIn(row, 'id')) ?? [])
  }

  raiseEpoch({ id, epoch }: { readonly id: string; readonly epoch: number }, above: number): SessionRow | undefined {
    this.#ends.delete(id)
    const sql = 'UPDATE sessions SET epoch=max(epoch, ?)+1 WHERE id=? AND epoch=?'
    return this.#sql.run(sql, above, id, epoch).changes === 0 ? undefined : this.getSession(id)
  }

  wake(waitFor: string, limit = -1): number {
    const which = 'SELECT sid FROM sessions WHERE wait_for=? AND owner IS NULL ORDER BY sid LIMIT ?'
    const sql = `UPDATE sessions SET wake_at='', wait_for=NULL WHERE sid IN (${which})`
    return Number(this.#sql.run(sql, waitFor, limit).changes)
  }

  waits(): readonly Wait[] {
    const rows = this.#sql.all(
      'SELECT wait_for, count(*) AS sessions FROM sessions WHERE wait_for IS NOT NULL AND owner IS NULL GROUP BY 1',
    )
    return rows.map((row) => ({ waitFor: textIn(row, 'wait_for'), sessions: numberIn(row, 'sessions') }))
  }

  // ---- journals ----

  heads(ids: readonly string[]): readonly SessionHead[] {
    return ids.flatMap((id) => {
      const row = this.getSession(id)
      const session = this.#eventsOf(id)
      if (row === undefined || session === undefined) return []
      const { journal, epoch, lastSeq, state, turnId } = row
      const hash = this.#events.hashAt(session) ?? ''
      return [{ sessionId: id, journal, epoch, lastSeq, hash, state, turnId, owner: null }]
    })
  }

  append(append: Append): void {
    const end = this.#endOf(append.sessionId)
    if (end === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    const { sid } = end
    if (end.epoch !== append.epoch) {
      throw new Fault('lease_lost', { boundary: 'journal', errorRaw: `epoch ${append.epoch}, now ${end.epoch}` })
    }
    if (end.lastSeq !== append.after) {
      if (append.events.length > 0 && this.#isRepeated(end, append)) return
      throw new Fault('lease_lost', {
        boundary: 'journal',
        errorRaw: `append after seq ${append.after}, but the journal is at ${end.lastSeq}`,
      })
    }
    this.#refuseBad(append) // before anything is written: a refusal must leave nothing behind
    if (append.events.length > 0) this.#events.write(end, append.events)
    if (append.set !== undefined) {
      const { state, turnId, at = null } = append.set
      this.#sql.run(
        'UPDATE sessions SET state=?, turn_id=?, updated_at=coalesce(?, updated_at) WHERE sid=?',
        state,
        turnId,
        at,
        sid,
      )
    }
    if (append.data !== undefined)
      this.#sql.run('UPDATE sessions SET data=? WHERE sid=?', JSON.stringify(append.data), sid)
    for (const turn of append.turns ?? []) this.#turns.put(sid, turn)
    if (append.summary !== undefined) this.#turns.putSummary(sid, append.summary)
    this.#putKey(append.key)
    if (append.suspect !== undefined) this.#sql.run('UPDATE sessions SET suspect=? WHERE sid=?', append.suspect, sid)
    if (append.release !== undefined) {
      const { wakeAt, waitFor } = append.release
      this.#sql.run('UPDATE sessions SET owner=NULL, wake_at=?, wait_for=? WHERE sid=?', wakeAt ?? NEVER, waitFor, sid)
    }
    this.#faults.write(sid, append.faults)
  }

  read(sessionId: string, after: number, limit: number, charsMax = Number.POSITIVE_INFINITY): readonly StoredEvent[] {
    const session = this.#eventsOf(sessionId)
    if (session === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    // One more than requested: the event before the first one holds the hash that the chain continues from.
    const { ids, missing } = this.#events.find(session, Math.max(after - 1, 0), after + limit)
    if (missing !== undefined) throw corrupt(sessionId, missing)
    let hash = CHAIN_START
    let chars = 0
    const events: StoredEvent[] = []
    for (const id of ids) {
      const { epoch, hash: kept, ...event } = this.#events.at(id)
      if (event.seq > after) {
        chars += event.body.length
        if (events.length > 0 && chars > charsMax) break
        if (!isLink(hash, { ...event, epoch }, kept)) throw corrupt(sessionId, event.seq)
        events.push(event)
      }
      hash = kept
    }
    return events
  }

  // ---- turns, keys and faults ----

  getTurn(turnId: string): TurnRow | undefined {
    return this.#turns.get(turnId)
  }

  listTurns(sessionId: string, page: TurnPage): readonly TurnRow[] {
    return this.#turns.list(sessionId, page)
  }

  getKey(scope: string, key: string): KeyRow | undefined {
    const row = this.#sql.get('SELECT request_hash, receipt FROM keys WHERE scope=? AND key=?', scope, key)
    if (row === undefined) return undefined
    const [requestHash, receipt] = [textIn(row, 'request_hash'), textIn(row, 'receipt')]
    const isLeft = scope === CREATED && this.#sql.get('SELECT 1 FROM sessions WHERE id=?', receipt) === undefined
    return isLeft ? undefined : { scope, key, requestHash, receipt } // I2
  }

  faultGroups(selection: FaultSelection): readonly FaultGroup[] {
    return this.#faults.groups(selection)
  }

  faultOccurrences(selection: OccurrenceSelection): readonly FaultOccurrence[] {
    return this.#faults.occurrences(selection)
  }

  quarantine(sessionId: string, report: FaultReport): void {
    this.#sql.run(
      `UPDATE sessions SET quarantined=?, category=?, class=?, turn_state=CASE
         WHEN turn_state IN ('queued', 'running', 'retrying', 'parked') THEN 'failed' ELSE turn_state END
       WHERE id=?`,
      JSON.stringify(report),
      report.category,
      report.class,
      sessionId,
    )
  }

  /** Compares the anchor's heads with the journals. */
  compare(heads: ReadonlyMap<string, Head>): readonly StoreProblem[] {
    const problems: StoreProblem[] = []
    for (const [sessionId, head] of heads) {
      const session = this.#eventsOf(sessionId)
      if (session === undefined) {
        problems.push({ sessionId, what: `the session is gone; it had ${head.seq} events` })
      } else if (session.lastSeq < head.seq) {
        problems.push({
          sessionId,
          what: `events after seq ${session.lastSeq} are gone; the journal had reached ${head.seq}`,
        })
      } else {
        const [id] = this.#events.find(session, head.seq - 1, head.seq).ids
        if (id === undefined || this.#events.at(id).hash !== head.hash) {
          problems.push({ sessionId, what: `event ${head.seq} is not the event that was written` })
        }
      }
    }
    return problems
  }

  // ---- what deleted sessions leave ----

  /** Whether events of deleted sessions are still to be removed. */
  hasRemains(): boolean {
    return this.#sql.get('SELECT 1 FROM removed LIMIT 1') !== undefined
  }

  /** One batch of them: no session can append meanwhile. */
  removeSome(): void {
    const [row] = this.#sql.all('SELECT sid, last_seq, head FROM removed LIMIT 1')
    if (row === undefined) return
    const session = eventsOf(row)
    const rest = this.#events.removeLast(session, EVENTS_AT_ONCE)
    if (rest.lastSeq === 0) this.#sql.run('DELETE FROM removed WHERE sid=?', session.sid)
    else this.#sql.run('UPDATE removed SET last_seq=?, head=? WHERE sid=?', rest.lastSeq, rest.head, session.sid)
  }

  /** I2 */
  removeLeftKeys(): void {
    this.#sql.run('DELETE FROM keys WHERE scope=? AND receipt NOT IN (SELECT id FROM sessions)', CREATED)
  }

  /** Moves pages from the end of the file to free ones. The file itself becomes shorter at the next checkpoint. */
  freePages(count: number): void {
    this.#db.exec(`PRAGMA incremental_vacuum(${count})`)
  }

  /** Outside a transaction: copies the log into the file and empties it. A reader only postpones that. */
  truncateLog(): void {
    this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  }

  /** Free pages inside the file, which only deleted sessions leave. */
  get pagesFree(): number {
    return Number(this.#sql.get('PRAGMA freelist_count')?.['freelist_count'] ?? 0)
  }

  // ---- around a transaction ----

  /** Before a commit: writes everything that belongs to it into the database. */
  flush(): void {
    this.#events.flush()
  }

  /** At the end of a transaction: what it changed, for the anchor. */
  takeChanges(): { readonly moved: readonly JournalEnd[]; readonly deleted: readonly string[] } {
    const deleted = this.#deleted
    this.#deleted = []
    return { moved: this.#events.takeMoved(), deleted }
  }

  /** After a rolled-back transaction: the cached ends may never have been written. */
  forget(): void {
    this.#ends.clear()
  }

  // ---- details ----

  #endOf(sessionId: string): JournalEnd | undefined {
    const known = this.#ends.get(sessionId)
    if (known !== undefined) return known
    const [row] = this.#sessions('sid, epoch, last_seq, head, bytes', 'WHERE id=?', sessionId)
    if (row === undefined) return undefined
    const session = eventsOf(row)
    const hash = this.#events.hashAt(session)
    if (hash === undefined) throw corrupt(sessionId, session.lastSeq)
    const [epoch, bytes] = [numberIn(row, 'epoch'), numberIn(row, 'bytes')]
    const end = { id: sessionId, ...session, hash, epoch, bytes, isMoved: false }
    if (this.#ends.size >= ENDS_MAX) this.#ends.clear()
    this.#ends.set(sessionId, end)
    return end
  }

  #eventsOf(sessionId: string): EventsOf | undefined {
    return this.#sessions('sid, last_seq, head', 'WHERE id=?', sessionId).map(eventsOf)[0]
  }

  #sessions(columns: string, which: string, ...values: SqlValue[]): Row[] {
    this.#events.flush()
    return this.#sql.all(`SELECT ${columns} FROM sessions JOIN heads USING (sid) ${which}`, ...values)
  }

  #refuseBad(append: Append): void {
    const wrong = append.events.find((event, index) => event.seq !== append.after + 1 + index)
    if (wrong !== undefined) {
      throw new Fault('other', { boundary: 'journal', errorRaw: `an event carries seq ${wrong.seq} out of order` })
    }
    this.#refuseTaken(append.key)
  }

  #refuseTaken(key: KeyRow | undefined): void {
    if (key === undefined || this.getKey(key.scope, key.key) === undefined) return
    throw new Fault('idempotency_conflict', { errorRaw: `key ${key.key} is taken` })
  }

  #putKey(key: KeyRow | undefined): void {
    if (key === undefined) return
    const sql = 'INSERT OR REPLACE INTO keys(scope, key, request_hash, receipt) VALUES (?,?,?,?)'
    this.#sql.run(sql, key.scope, key.key, key.requestHash, key.receipt)
  }

  /** I1 */
  #freeSid(): number {
    const row = this.#sql.get(
      'SELECT (SELECT max(sid) FROM sessions) AS last, (SELECT max(sid) FROM removed) AS removed',
    )
    return Math.max(Number(row?.['last']), Number(row?.['removed'])) + 1
  }

  /** I2 of the store: are these exactly the events that are there already? */
  #isRepeated(session: EventsOf, { epoch, after, events }: Append): boolean {
    this.#events.flush()
    const { ids } = this.#events.find(session, after, after + events.length)
    if (ids.length < events.length) return false
    return ids.every((id, index) => {
      const kept = this.#events.at(id)
      return kept.epoch === epoch && kept.body === events[index]?.body
    })
  }
}

// ---- details ----

const ENDS_MAX = 10_000

/** Each event may be on a different page: this many take about ten milliseconds. */
const EVENTS_AT_ONCE = 200

/** Takeovers without progress from which on a session is claimed last. */
const SUSPECT_MIN = 2

const IS_ENDED = "state='idle' AND quarantined IS NULL AND (last_seq>0 OR created_at<?)"

/** Sorts after every time in ISO 8601. */
const NEVER = 'never'

/** No other daemon submits commands here or owns sessions. */
const NOT_SHARED = { owner: null, asked: 0, seen: 0, isDeleting: false } as const

const FRESH = {
  ...NOT_SHARED,
  epoch: 0,
  lastSeq: 0,
  state: 'idle',
  turnId: null,
  quarantined: null,
  suspect: 0,
  turn: null,
} as const

function sessionOf(row: Row): SessionRow {
  return {
    id: textIn(row, 'id'),
    journal: textIn(row, 'journal'),
    createdAt: textIn(row, 'created_at'),
    data: jsonIn<SessionRow['data']>(row, 'data'),
    epoch: numberIn(row, 'epoch'),
    lastSeq: numberIn(row, 'last_seq'),
    updatedAt: textIn(row, 'updated_at'),
    state: SESSION_STATES.find((state) => state === row['state']) ?? 'idle',
    turnId: textOrNullIn(row, 'turn_id'),
    ...NOT_SHARED,
    suspect: numberIn(row, 'suspect'),
    quarantined: jsonIn<FaultReport | null>(row, 'quarantined'),
    turn: jsonIn<SessionRow['turn']>(row, 'turn'),
  }
}

const corrupt = (sessionId: string, seq: number): Fault =>
  new Fault('journal_corrupt', {
    facts: { name: `session ${sessionId}`, detail: `the first bad event is ${seq}` },
    errorRaw: `hash chain of session ${sessionId} breaks at seq ${seq}`,
  })
