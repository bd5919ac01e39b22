/**
 * The events of all sessions in one table, in order of arrival: a commit writes its bytes at one place, however many sessions
 * it serves. Each row names the row of the event before it, a session names its last, and every 64th is in an index.
 *
 * I1  A row is written once, never moves, and goes with its session.
 * I2  The way from row to row is checked at each step: a wrong pointer ends it, and leads neither elsewhere nor in a circle.
 */
import { CHAIN_START, chainHash } from './chain.ts'
import { IS_MARKED, SEQS_PER_SESSION } from './sqlite-open.ts'
import { type Row, Rows, type Statements } from './sqlite-statements.ts'
import type { StoredEvent } from './store.ts'

/** Where a session's events are found: `head` is the row of the last one. */
export type Place = { readonly sid: number; readonly lastSeq: number; readonly head: number | null }

export const placeOf = (row: Row): Place => ({
  sid: row['sid'] as number,
  lastSeq: row['last_seq'] as number,
  head: row['head'] as number | null,
})

/** `missing` is an event that is not where it should be; those before it cannot be reached either. */
export type Found = { readonly ids: readonly number[]; readonly missing: number | undefined }

/** How far a session has come, and the hash of its last event. Moves on with each append: many are made, and few kept. */
export type End = {
  readonly id: string
  readonly sid: number
  readonly epoch: number
  lastSeq: number
  head: number | null
  hash: string
  /** True from the first append of a transaction to its end. */
  isMoved: boolean
}

export type KeptEvent = StoredEvent & { readonly epoch: number; readonly hash: string }

export class SqliteEvents {
  readonly #sql: Statements
  /** Only ever counts up: what a transaction that was rolled back leaves is a gap. */
  #lastId: number | undefined
  /** Written and not settled. */
  readonly #rows = new Rows(
    'INSERT INTO events(id, key, prev, epoch, type, turn_id, body, hash) VALUES',
    '(?,?,?,?,?,?,?,unhex(?))',
  )
  readonly #ends = new Rows(
    'INSERT INTO heads(sid, last_seq, head) VALUES',
    '(?,?,?)',
    'ON CONFLICT(sid) DO UPDATE SET last_seq=excluded.last_seq, head=excluded.head',
  )
  #moved: End[] = []

  constructor(sql: Statements) {
    this.#sql = sql
  }

  /** The hash that a session's next event goes on from. Undefined where its last event is not there. */
  hashAt({ sid, lastSeq, head }: Place): string | undefined {
    if (lastSeq === 0) return CHAIN_START
    const row = this.#sql.get('SELECT hash FROM events WHERE id=? AND key=?', head, keyOf(sid, lastSeq))
    return row === undefined ? undefined : hexOf(row['hash'])
  }

  /** Moves the session's end on. What is written is in the database once it is settled. */
  write(end: End, events: readonly StoredEvent[]): void {
    this.#lastId ??= Number(this.#sql.get('SELECT max(id) AS id FROM events')?.['id'] ?? 0)
    for (const { type, turnId, body } of events) {
      end.lastSeq += 1
      end.hash = chainHash(end.hash, { seq: end.lastSeq, epoch: end.epoch, type, body })
      this.#lastId += 1
      this.#rows.add(this.#lastId, keyOf(end.sid, end.lastSeq), end.head, end.epoch, type, turnId, body, end.hash)
      end.head = this.#lastId
    }
    if (end.isMoved) return
    end.isMoved = true
    this.#moved.push(end)
  }

  /** Brings what was written into the database, the events of many sessions in one statement. */
  settle(): void {
    if (this.#rows.isEmpty) return
    for (const { sid, lastSeq, head } of this.#moved) this.#ends.add(sid, lastSeq, head)
    this.#rows.write(this.#sql)
    this.#ends.write(this.#sql)
  }

  /** At the end of a transaction: whose journals it moved on. What was not settled by then is dropped. */
  takeMoved(): readonly End[] {
    const moved = this.#moved
    for (const end of moved) end.isMoved = false
    this.#moved = []
    this.#rows.drop()
    this.#ends.drop()
    return moved
  }

  /** The rows of the events after one seq and up to another, oldest first. */
  find({ sid, lastSeq, head }: Place, after: number, upTo: number): Found {
    const last = Math.min(upTo, lastSeq)
    if (after >= last) return { ids: [], missing: undefined }
    const marked = this.#sql.get(NEXT_MARKED, keyOf(sid, last), keyOf(sid, lastSeq))
    const start = (marked?.['key'] ?? keyOf(sid, lastSeq)) as number
    const rows = this.#sql.all(BACKWARDS, (marked?.['id'] ?? head) as number | null, start, keyOf(sid, after))
    const lowest = seqOf(rows.at(-1)?.['key'] ?? start + 1)
    return {
      ids: rows
        .slice(seqOf(start) - last)
        .map(({ id }) => id as number)
        .toReversed(),
      missing: lowest > after + 1 ? lowest - 1 : undefined,
    }
  }

  at(id: number): KeptEvent {
    const row = this.#sql.get('SELECT * FROM events WHERE id=?', id) as Row
    return {
      seq: seqOf(row['key']),
      type: row['type'] as StoredEvent['type'],
      turnId: row['turn_id'] as string,
      body: row['body'] as string,
      epoch: row['epoch'] as number,
      hash: hexOf(row['hash']),
    }
  }

  /** Removes up to so many of a session's last events. Returns what is left of it. */
  removeLast(place: Place, count: number): Place {
    const { sid, lastSeq } = place
    this.#moved = this.#moved.filter((end) => end.sid !== sid)
    const after = Math.max(lastSeq - count, 0)
    const { ids, missing } = this.find(place, after, lastSeq)
    if (missing !== undefined) {
      // A damaged session: what cannot be reached from its last event is looked for everywhere.
      this.#sql.run('DELETE FROM events WHERE key>=? AND key<?', keyOf(sid, 0), keyOf(sid + 1, 0))
      return { sid, lastSeq: 0, head: null }
    }
    const [first] = ids
    const head = first === undefined ? null : this.#sql.get('SELECT prev FROM events WHERE id=?', first)?.['prev']
    for (const id of ids) this.#sql.run('DELETE FROM events WHERE id=?', id)
    return { sid, lastSeq: after, head: head as number | null }
  }
}

// ---- details ----

const keyOf = (sid: number, seq: number): number => sid * SEQS_PER_SESSION + seq

const seqOf = (key: unknown): number => (key as number) % SEQS_PER_SESSION

const hexOf = (bytes: unknown): string => Buffer.from(bytes as Uint8Array).toString('hex')

const NEXT_MARKED = `SELECT id, key FROM events WHERE key>=? AND key<? AND ${IS_MARKED} ORDER BY key LIMIT 1`

/** I2: from one row to the one before it, as long as that is the event before it. */
const BACKWARDS = `
  WITH RECURSIVE back(id, key, prev) AS (
    SELECT id, key, prev FROM events WHERE id=? AND key=?
    UNION ALL
    SELECT e.id, e.key, e.prev FROM back b JOIN events e ON e.id=b.prev WHERE e.key=b.key-1 AND e.key>?
  )
  SELECT id, key FROM back`
