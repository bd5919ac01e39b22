/**
 * The events of all sessions in one table, in order of arrival: a commit writes its bytes at one place, however many sessions
 * it serves. Each row names the row of the event before it, a session names its last, and every 64th is in an index.
 *
 * I1  A row is written once, never moves, and goes with its session.
 * I2  The way from row to row is checked at each step: a wrong pointer ends it, and leads neither elsewhere nor in a circle.
 */
import { CHAIN_START, chainHash } from './chain.ts'
import { IS_MARKED, SEQS_PER_SESSION } from './sqlite-open.ts'
import type { Row, SqlValue, Statements } from './sqlite-statements.ts'
import type { StoredEvent } from './store.ts'

/** Where a session's events are found: `head` is the row of the last one. */
export type Place = { readonly sid: number; readonly lastSeq: number; readonly head: number | null }

/** `missing` is an event that is not where it should be; those before it cannot be reached either. */
export type Found = { readonly ids: readonly number[]; readonly missing: number | undefined }

/** How far a session has come, and the hash of its last event. */
export type End = Place & { readonly hash: string }

export type KeptEvent = StoredEvent & { readonly epoch: number; readonly hash: string }

export class SqliteEvents {
  readonly #sql: Statements
  /** Only ever counts up: what a transaction that was rolled back leaves is a gap. */
  #lastId: number | undefined

  constructor(sql: Statements) {
    this.#sql = sql
  }

  /** Undefined where the session's last event is not there to go on from. */
  endOf(place: Place): End | undefined {
    if (place.lastSeq === 0) return { ...place, hash: CHAIN_START }
    const row = this.#sql.get(
      'SELECT hash FROM events WHERE id=? AND key=?',
      place.head,
      keyOf(place.sid, place.lastSeq),
    )
    return row === undefined ? undefined : { ...place, hash: hexOf(row['hash']) }
  }

  /** Returns where the session ends now. */
  write(end: End, epoch: number, events: readonly StoredEvent[]): End {
    let { hash, head, lastSeq } = end
    this.#lastId ??= Number(this.#sql.get('SELECT max(id) AS id FROM events')?.['id'] ?? 0)
    for (let from = 0; from < events.length; from += ROWS_MAX) {
      const some = events.slice(from, from + ROWS_MAX)
      const values: SqlValue[] = []
      for (const { type, turnId, body } of some) {
        lastSeq += 1
        hash = chainHash(hash, { seq: lastSeq, epoch, type, body })
        this.#lastId += 1
        values.push(this.#lastId, keyOf(end.sid, lastSeq), head, epoch, type, turnId, body, hash)
        head = this.#lastId
      }
      this.#sql.run(INSERTS[some.length] as string, ...values)
    }
    return { sid: end.sid, lastSeq, head, hash }
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

  remove(place: Place): void {
    const { ids, missing } = this.find(place, 0, place.lastSeq)
    for (const id of ids) this.#sql.run('DELETE FROM events WHERE id=?', id)
    // A damaged session: what cannot be reached from its last event is looked for everywhere.
    if (missing !== undefined)
      this.#sql.run('DELETE FROM events WHERE key>=? AND key<?', keyOf(place.sid, 0), keyOf(place.sid + 1, 0))
  }
}

// ---- details ----

const keyOf = (sid: number, seq: number): number => sid * SEQS_PER_SESSION + seq

const seqOf = (key: unknown): number => (key as number) % SEQS_PER_SESSION

const hexOf = (bytes: unknown): string => Buffer.from(bytes as Uint8Array).toString('hex')

/** Rows in one statement: eight in one take a fifth less time than one each; more bring nothing. */
const ROWS_MAX = 8

/** By how many rows they insert. */
const INSERTS = Array.from({ length: ROWS_MAX + 1 }, (_, rows) => {
  const places = Array.from({ length: rows }, () => '(?,?,?,?,?,?,?,unhex(?))')
  return `INSERT INTO events(id, key, prev, epoch, type, turn_id, body, hash) VALUES ${places.join()}`
})

const NEXT_MARKED = `SELECT id, key FROM events WHERE key>=? AND key<? AND ${IS_MARKED} ORDER BY key LIMIT 1`

/** I2: from one row to the one before it, as long as that is the event before it. */
const BACKWARDS = `
  WITH RECURSIVE back(id, key, prev) AS (
    SELECT id, key, prev FROM events WHERE id=? AND key=?
    UNION ALL
    SELECT e.id, e.key, e.prev FROM back b JOIN events e ON e.id=b.prev WHERE e.key=b.key-1 AND e.key>?
  )
  SELECT id, key FROM back`
