/**
 * Every operation of the store as plain SQL on an open database. Synchronous, no transaction of its own: the worker
 * around it groups many of these into one commit.
 */
import type { DatabaseSync } from 'node:sqlite'
import { Fault, type FaultReport } from '@breakfall/faults'
import type { Head } from './anchor.ts'
import { CHAIN_START, isLink } from './chain.ts'
import { type End, type Place, SqliteEvents } from './sqlite-events.ts'
import { type Row, Statements } from './sqlite-statements.ts'
import type { Append, KeyRow, NewSession, SessionRow, StoredEvent, StoreProblem, TurnRow } from './store.ts'

export class SqliteJournal {
  readonly #sql: Statements
  readonly #events: SqliteEvents
  /** Where each journal ends, so that an append needs no look. Ours to keep: nobody else writes here. */
  readonly #heads = new Map<string, JournalHead>()
  /** Heads that changed in the open transaction, for the anchor; null where a session was deleted. */
  readonly changedHeads = new Map<string, Head | null>()

  constructor(db: DatabaseSync) {
    this.#sql = new Statements(db)
    this.#events = new SqliteEvents(this.#sql)
  }

  createSession(session: NewSession): SessionRow {
    const { id, journal, createdAt, data } = session
    this.#sql.run(
      'INSERT INTO sessions(id, journal, created_at, data) VALUES (?,?,?,?)',
      id,
      journal,
      createdAt,
      JSON.stringify(data),
    )
    this.#sql.run('INSERT INTO heads(sid) VALUES (last_insert_rowid())')
    return { ...session, epoch: 0, lastSeq: 0, state: 'idle', turnId: null, quarantined: null }
  }

  getSession(id: string): SessionRow | undefined {
    const row = this.#sql.get('SELECT * FROM sessions JOIN heads USING (sid) WHERE id=?', id)
    return row === undefined ? undefined : sessionOf(row)
  }

  listSessions(page: { after?: string | undefined; limit: number }): readonly SessionRow[] {
    // Ids are UUIDv7: sorted by id is sorted by age, newest first.
    const rows =
      page.after === undefined
        ? this.#sql.all('SELECT * FROM sessions JOIN heads USING (sid) ORDER BY id DESC LIMIT ?', page.limit)
        : this.#sql.all(
            'SELECT * FROM sessions JOIN heads USING (sid) WHERE id<? ORDER BY id DESC LIMIT ?',
            page.after,
            page.limit,
          )
    return rows.map(sessionOf)
  }

  deleteSession(id: string): boolean {
    this.#heads.delete(id)
    const place = this.#placeOf(id)
    if (place !== undefined) this.#events.remove(place)
    const { changes } = this.#sql.run('DELETE FROM sessions WHERE id=?', id)
    this.#sql.run('DELETE FROM keys WHERE scope=?', id)
    if (Number(changes) > 0) this.changedHeads.set(id, null)
    return Number(changes) > 0
  }

  claim(id: string): SessionRow | undefined {
    this.#heads.delete(id)
    this.#sql.run('UPDATE sessions SET epoch=epoch+1 WHERE id=?', id)
    return this.getSession(id)
  }

  claimUnfinished(): readonly SessionRow[] {
    this.#heads.clear()
    this.#sql.run("UPDATE sessions SET epoch=epoch+1 WHERE state<>'idle' AND quarantined IS NULL")
    return this.#sql
      .all("SELECT * FROM sessions JOIN heads USING (sid) WHERE state<>'idle' AND quarantined IS NULL ORDER BY sid")
      .map(sessionOf)
  }

  append(append: Append): void {
    const head = this.#headOf(append.sessionId)
    if (head === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    const { sid } = head
    if (head.epoch !== append.epoch) {
      throw new Fault('lease_lost', { boundary: 'journal', errorRaw: `epoch ${append.epoch}, now ${head.epoch}` })
    }
    if (head.lastSeq !== append.after) {
      if (append.events.length > 0 && this.#isRepeated(head, append)) return
      throw new Fault('lease_lost', {
        boundary: 'journal',
        errorRaw: `append after seq ${append.after}, but the journal is at ${head.lastSeq}`,
      })
    }
    this.#refuseBad(append) // before anything is written: a refusal must leave nothing behind
    if (append.events.length > 0) {
      const end = this.#events.write(head, append.epoch, append.events)
      this.#sql.run('UPDATE heads SET last_seq=?, head=? WHERE sid=?', end.lastSeq, end.head, sid)
      this.#heads.set(append.sessionId, { ...end, epoch: append.epoch })
      this.changedHeads.set(append.sessionId, { seq: end.lastSeq, hash: end.hash })
    }
    if (append.set !== undefined) {
      this.#sql.run('UPDATE sessions SET state=?, turn_id=? WHERE sid=?', append.set.state, append.set.turnId, sid)
    }
    if (append.data !== undefined)
      this.#sql.run('UPDATE sessions SET data=? WHERE sid=?', JSON.stringify(append.data), sid)
    for (const turn of append.turns ?? []) this.#putTurn(sid, turn)
    if (append.key !== undefined) this.#putKey(append.key)
  }

  read(sessionId: string, after: number, limit: number, charsMax = Number.POSITIVE_INFINITY): readonly StoredEvent[] {
    const place = this.#placeOf(sessionId)
    if (place === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    // One more than asked for: the event before the first holds the hash that the chain goes on from.
    const { ids, missing } = this.#events.find(place, Math.max(after - 1, 0), after + limit)
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

  getTurn(turnId: string): TurnRow | undefined {
    const row = this.#sql.get(
      'SELECT t.view, t.cancel, s.id AS session_id FROM turns t JOIN sessions s USING (sid) WHERE t.turn_id=?',
      turnId,
    )
    if (row === undefined) return undefined
    return {
      turnId,
      sessionId: row['session_id'] as string,
      view: JSON.parse(row['view'] as string) as TurnRow['view'],
      cancel: row['cancel'] === null ? null : (JSON.parse(row['cancel'] as string) as TurnRow['cancel']),
    }
  }

  getKey(scope: string, key: string): KeyRow | undefined {
    const row = this.#sql.get('SELECT request_hash, receipt FROM keys WHERE scope=? AND key=?', scope, key)
    if (row === undefined) return undefined
    return { scope, key, requestHash: row['request_hash'] as string, receipt: row['receipt'] as string }
  }

  quarantine(sessionId: string, report: FaultReport): void {
    this.#sql.run('UPDATE sessions SET quarantined=? WHERE id=?', JSON.stringify(report), sessionId)
  }

  /** Compares the anchor's heads with the journals. */
  compare(heads: ReadonlyMap<string, Head>): readonly StoreProblem[] {
    const problems: StoreProblem[] = []
    for (const [sessionId, head] of heads) {
      const place = this.#placeOf(sessionId)
      if (place === undefined) {
        problems.push({ sessionId, what: `the session is gone; it had ${head.seq} events` })
      } else if (place.lastSeq < head.seq) {
        problems.push({
          sessionId,
          what: `events after seq ${place.lastSeq} are gone; the journal had reached ${head.seq}`,
        })
      } else {
        const [id] = this.#events.find(place, head.seq - 1, head.seq).ids
        if (id === undefined || this.#events.at(id).hash !== head.hash) {
          problems.push({ sessionId, what: `event ${head.seq} is not the one that was written` })
        }
      }
    }
    return problems
  }

  /** After a transaction that was rolled back: what is remembered may never have been written. */
  forgetHeads(): void {
    this.#heads.clear()
    this.changedHeads.clear()
  }

  #headOf(sessionId: string): JournalHead | undefined {
    const known = this.#heads.get(sessionId)
    if (known !== undefined) return known
    const row = this.#sql.get(
      'SELECT sid, epoch, last_seq, head FROM sessions JOIN heads USING (sid) WHERE id=?',
      sessionId,
    )
    if (row === undefined) return undefined
    const place = placeOf(row)
    const end = this.#events.endOf(place)
    if (end === undefined) throw corrupt(sessionId, place.lastSeq)
    const head = { ...end, epoch: row['epoch'] as number }
    if (this.#heads.size >= HEADS_MAX) this.#heads.clear()
    this.#heads.set(sessionId, head)
    return head
  }

  #placeOf(sessionId: string): Place | undefined {
    const row = this.#sql.get('SELECT sid, last_seq, head FROM sessions JOIN heads USING (sid) WHERE id=?', sessionId)
    return row === undefined ? undefined : placeOf(row)
  }

  #refuseBad(append: Append): void {
    const wrong = append.events.find((event, index) => event.seq !== append.after + 1 + index)
    if (wrong !== undefined) {
      throw new Fault('other', { boundary: 'journal', errorRaw: `an event carries seq ${wrong.seq} out of order` })
    }
    if (append.key !== undefined && this.getKey(append.key.scope, append.key.key) !== undefined) {
      throw new Fault('idempotency_conflict', { errorRaw: `key ${append.key.key} is taken` })
    }
  }

  /** I2 of the store: is what stands there already exactly what is to be appended? */
  #isRepeated(place: Place, { epoch, after, events }: Append): boolean {
    const { ids } = this.#events.find(place, after, after + events.length)
    if (ids.length < events.length) return false
    return ids.every((id, index) => {
      const kept = this.#events.at(id)
      return kept.epoch === epoch && kept.body === events[index]?.body
    })
  }

  #putTurn(sid: number, turn: TurnRow): void {
    this.#sql.run(
      `INSERT INTO turns(turn_id, sid, view, cancel) VALUES (?,?,?,?)
       ON CONFLICT(turn_id) DO UPDATE SET view=excluded.view, cancel=excluded.cancel`,
      turn.turnId,
      sid,
      JSON.stringify(turn.view),
      turn.cancel === null ? null : JSON.stringify(turn.cancel),
    )
  }

  #putKey(key: KeyRow): void {
    this.#sql.run(
      'INSERT INTO keys(scope, key, request_hash, receipt) VALUES (?,?,?,?)',
      key.scope,
      key.key,
      key.requestHash,
      key.receipt,
    )
  }
}

// ---- details ----

const HEADS_MAX = 10_000

type JournalHead = End & { readonly epoch: number }

const placeOf = (row: Row): Place => ({
  sid: row['sid'] as number,
  lastSeq: row['last_seq'] as number,
  head: row['head'] as number | null,
})

function sessionOf(row: Row): SessionRow {
  return {
    id: row['id'] as string,
    journal: row['journal'] as string,
    createdAt: row['created_at'] as string,
    data: JSON.parse(row['data'] as string) as SessionRow['data'],
    epoch: row['epoch'] as number,
    lastSeq: row['last_seq'] as number,
    state: row['state'] as SessionRow['state'],
    turnId: row['turn_id'] as string | null,
    quarantined: row['quarantined'] === null ? null : (JSON.parse(row['quarantined'] as string) as FaultReport),
  }
}

const corrupt = (sessionId: string, seq: number): Fault =>
  new Fault('journal_corrupt', {
    facts: { name: `session ${sessionId}`, detail: `the first bad event is ${seq}` },
    errorRaw: `hash chain of session ${sessionId} breaks at seq ${seq}`,
  })
