/**
 * Every operation of the store as plain SQL on an open database. Synchronous, no transaction of its own: the worker
 * around it groups many of these into one commit.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { Fault, type FaultReport } from '@breakfall/faults'
import type { Head } from './anchor.ts'
import { CHAIN_START, chainHash } from './chain.ts'
import { SEQS_PER_SESSION } from './sqlite-open.ts'
import type { Append, KeyRow, NewSession, SessionRow, StoredEvent, StoreProblem, TurnRow } from './store.ts'

type Row = Record<string, unknown>

export class SqliteJournal {
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  /** Where each journal ends, so that an append needs no look. Ours to keep: nobody else writes here. */
  readonly #heads = new Map<string, JournalHead>()
  /** Heads that changed in the open transaction, for the anchor; null where a session was deleted. */
  readonly changedHeads = new Map<string, Head | null>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  createSession(session: NewSession): SessionRow {
    const { id, journal, createdAt, data } = session
    this.#run(
      'INSERT INTO sessions(id, journal, created_at, data, head_hash) VALUES (?,?,?,?,?)',
      id,
      journal,
      createdAt,
      JSON.stringify(data),
      CHAIN_START,
    )
    return { ...session, epoch: 0, lastSeq: 0, state: 'idle', turnId: null, quarantined: null }
  }

  getSession(id: string): SessionRow | undefined {
    const row = this.#get('SELECT * FROM sessions WHERE id=?', id)
    return row === undefined ? undefined : sessionOf(row)
  }

  listSessions(page: { after?: string | undefined; limit: number }): readonly SessionRow[] {
    // Ids are UUIDv7: sorted by id is sorted by age, newest first.
    const rows =
      page.after === undefined
        ? this.#all('SELECT * FROM sessions ORDER BY id DESC LIMIT ?', page.limit)
        : this.#all('SELECT * FROM sessions WHERE id<? ORDER BY id DESC LIMIT ?', page.after, page.limit)
    return rows.map(sessionOf)
  }

  deleteSession(id: string): boolean {
    this.#heads.delete(id)
    const sid = this.#get('SELECT sid FROM sessions WHERE id=?', id)?.['sid'] as number | undefined
    if (sid !== undefined) this.#run('DELETE FROM events WHERE key>=? AND key<?', keyOf(sid, 0), keyOf(sid + 1, 0))
    const { changes } = this.#run('DELETE FROM sessions WHERE id=?', id)
    this.#run('DELETE FROM keys WHERE scope=?', id)
    if (Number(changes) > 0) this.changedHeads.set(id, null)
    return Number(changes) > 0
  }

  claim(id: string): SessionRow | undefined {
    this.#heads.delete(id)
    this.#run('UPDATE sessions SET epoch=epoch+1 WHERE id=?', id)
    return this.getSession(id)
  }

  claimUnfinished(): readonly SessionRow[] {
    this.#heads.clear()
    this.#run("UPDATE sessions SET epoch=epoch+1 WHERE state<>'idle' AND quarantined IS NULL")
    return this.#all("SELECT * FROM sessions WHERE state<>'idle' AND quarantined IS NULL ORDER BY sid").map(sessionOf)
  }

  append(append: Append): void {
    const head = this.#headOf(append.sessionId)
    if (head === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    const { sid } = head
    if (head.epoch !== append.epoch) {
      throw new Fault('lease_lost', { boundary: 'journal', errorRaw: `epoch ${append.epoch}, now ${head.epoch}` })
    }
    let { hash } = head
    if (head.lastSeq !== append.after) {
      if (append.events.length > 0 && this.#isRepeated(sid, append)) return
      throw new Fault('lease_lost', {
        boundary: 'journal',
        errorRaw: `append after seq ${append.after}, but the journal is at ${head.lastSeq}`,
      })
    }
    this.#refuseBad(append) // before anything is written: a refusal must leave nothing behind
    let seq = head.lastSeq
    for (const event of append.events) {
      seq += 1
      hash = chainHash(hash, { seq, epoch: append.epoch, type: event.type, body: event.body })
      this.#run(
        'INSERT INTO events(key, epoch, type, turn_id, body, hash) VALUES (?,?,?,?,?,?)',
        keyOf(sid, seq),
        append.epoch,
        event.type,
        event.turnId,
        event.body,
        hash,
      )
    }
    if (append.events.length > 0) {
      this.#run('UPDATE sessions SET last_seq=?, head_hash=? WHERE sid=?', seq, hash, sid)
      this.#heads.set(append.sessionId, { ...head, lastSeq: seq, hash })
      this.changedHeads.set(append.sessionId, { seq, hash: Buffer.from(hash).toString('hex') })
    }
    if (append.set !== undefined) {
      this.#run('UPDATE sessions SET state=?, turn_id=? WHERE sid=?', append.set.state, append.set.turnId, sid)
    }
    if (append.data !== undefined) this.#run('UPDATE sessions SET data=? WHERE sid=?', JSON.stringify(append.data), sid)
    for (const turn of append.turns ?? []) this.#putTurn(sid, turn)
    if (append.key !== undefined) this.#putKey(append.key)
  }

  read(sessionId: string, after: number, limit: number, charsMax = Number.POSITIVE_INFINITY): readonly StoredEvent[] {
    const session = this.#get('SELECT sid, last_seq, quarantined FROM sessions WHERE id=?', sessionId)
    if (session === undefined) throw new Fault('not_found', { facts: { name: 'such session' }, boundary: 'journal' })
    const sid = session['sid'] as number
    const last = session['last_seq'] as number
    const before = after === 0 ? undefined : this.#get('SELECT hash FROM events WHERE key=?', keyOf(sid, after))
    let hash: Uint8Array = after === 0 ? CHAIN_START : ((before?.['hash'] as Uint8Array | undefined) ?? CHAIN_START)
    let seq = after
    let chars = 0
    const events: StoredEvent[] = []
    const rows = this.#statement('SELECT * FROM events WHERE key>? AND key<? ORDER BY key LIMIT ?')
    for (const row of rows.iterate(keyOf(sid, after), keyOf(sid + 1, 0), limit) as Iterable<Row>) {
      const event = eventOf(row)
      chars += event.body.length
      if (events.length > 0 && chars > charsMax) return events
      seq += 1
      hash = chainHash(hash, { ...event, epoch: row['epoch'] as number })
      if (event.seq !== seq || !Buffer.from(hash).equals(row['hash'] as Uint8Array)) throw corrupt(sessionId, seq)
      events.push(event)
    }
    if (events.length < limit && seq < last) throw corrupt(sessionId, seq + 1)
    return events
  }

  getTurn(turnId: string): TurnRow | undefined {
    const row = this.#get(
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
    const row = this.#get('SELECT request_hash, receipt FROM keys WHERE scope=? AND key=?', scope, key)
    if (row === undefined) return undefined
    return { scope, key, requestHash: row['request_hash'] as string, receipt: row['receipt'] as string }
  }

  quarantine(sessionId: string, report: FaultReport): void {
    this.#run('UPDATE sessions SET quarantined=? WHERE id=?', JSON.stringify(report), sessionId)
  }

  /** Compares the anchor's heads with the journals. */
  compare(heads: ReadonlyMap<string, Head>): readonly StoreProblem[] {
    const problems: StoreProblem[] = []
    for (const [sessionId, head] of heads) {
      const row = this.#get('SELECT sid, last_seq FROM sessions WHERE id=?', sessionId)
      if (row === undefined) {
        problems.push({ sessionId, what: `the session is gone; it had ${head.seq} events` })
      } else if ((row['last_seq'] as number) < head.seq) {
        problems.push({
          sessionId,
          what: `events after seq ${String(row['last_seq'])} are gone; the journal had reached ${head.seq}`,
        })
      } else {
        const event = this.#get('SELECT hash FROM events WHERE key=?', keyOf(row['sid'] as number, head.seq))
        if (event === undefined || Buffer.from(event['hash'] as Uint8Array).toString('hex') !== head.hash) {
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
    const row = this.#get('SELECT sid, epoch, last_seq, head_hash FROM sessions WHERE id=?', sessionId)
    if (row === undefined) return undefined
    const head: JournalHead = {
      sid: row['sid'] as number,
      epoch: row['epoch'] as number,
      lastSeq: row['last_seq'] as number,
      hash: row['head_hash'] as Uint8Array,
    }
    if (this.#heads.size >= HEADS_MAX) this.#heads.clear()
    this.#heads.set(sessionId, head)
    return head
  }

  /** Statements belong to one connection: after a failed transaction they stay usable, so they are kept. */
  #statement(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#db.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  #run(sql: string, ...values: SqlValue[]) {
    return this.#statement(sql).run(...values)
  }

  #get(sql: string, ...values: SqlValue[]): Row | undefined {
    return this.#statement(sql).get(...values)
  }

  #all(sql: string, ...values: SqlValue[]): Row[] {
    return this.#statement(sql).all(...values)
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
  #isRepeated(sid: number, append: Append): boolean {
    return append.events.every((event, index) => {
      const row = this.#get('SELECT epoch, body FROM events WHERE key=?', keyOf(sid, append.after + 1 + index))
      return row !== undefined && row['epoch'] === append.epoch && row['body'] === event.body
    })
  }

  #putTurn(sid: number, turn: TurnRow): void {
    this.#run(
      `INSERT INTO turns(turn_id, sid, view, cancel) VALUES (?,?,?,?)
       ON CONFLICT(turn_id) DO UPDATE SET view=excluded.view, cancel=excluded.cancel`,
      turn.turnId,
      sid,
      JSON.stringify(turn.view),
      turn.cancel === null ? null : JSON.stringify(turn.cancel),
    )
  }

  #putKey(key: KeyRow): void {
    this.#run(
      'INSERT INTO keys(scope, key, request_hash, receipt) VALUES (?,?,?,?)',
      key.scope,
      key.key,
      key.requestHash,
      key.receipt,
    )
  }
}

// ---- details ----

const keyOf = (sid: number, seq: number): number => sid * SEQS_PER_SESSION + seq

const HEADS_MAX = 10_000

type JournalHead = { readonly sid: number; readonly epoch: number; readonly lastSeq: number; readonly hash: Uint8Array }

type SqlValue = string | number | null | Uint8Array

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

function eventOf(row: Row): StoredEvent {
  return {
    seq: (row['key'] as number) % SEQS_PER_SESSION,
    type: row['type'] as StoredEvent['type'],
    turnId: row['turn_id'] as string,
    body: row['body'] as string,
  }
}

const corrupt = (sessionId: string, seq: number): Fault =>
  new Fault('journal_corrupt', {
    facts: { name: `session ${sessionId}`, detail: `the first bad event is ${seq}` },
    errorRaw: `hash chain of session ${sessionId} breaks at seq ${seq}`,
  })
