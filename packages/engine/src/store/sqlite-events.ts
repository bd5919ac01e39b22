/**
 * The events of all sessions in one table, in order of arrival: a commit writes to one place, however many sessions it serves.
 * Each row points to the row of the event before it, a session points to its last event, and every 64th event is in an index.
 *
 * I1  A row is written once, never moves, and is deleted with its session.
 * I2  Every step from row to row is checked: a wrong pointer ends the walk, and leads neither to another event nor in a circle.
 */
import { CHAIN_START, chainHash } from './chain.ts'
import { EVENT_BYTES, IS_MARKED, SEQS_PER_SESSION } from './sqlite-open.ts'
import { BatchInsert, hexIn, numberIn, numberOrNullIn, type Row, type Statements, textIn } from './sqlite-statements.ts'
import type { StoredEvent } from './store.ts'

/** Where a session's events are: `head` is the row of its last event. */
export type EventsOf = { readonly sid: number; readonly lastSeq: number; readonly head: number | null }

export const eventsOf = (row: Row): EventsOf => ({
  sid: numberIn(row, 'sid'),
  lastSeq: numberIn(row, 'last_seq'),
  head: numberOrNullIn(row, 'head'),
})

/** `missing` is the seq of an event that was not found; the events before it are unreachable, too. */
export type Found = { readonly ids: readonly number[]; readonly missing: number | undefined }

/** How far a session's journal reaches, and the hash of its last event. Mutable, because every append moves it. */
export type JournalEnd = {
  readonly id: string
  readonly sid: number
  readonly epoch: number
  lastSeq: number
  head: number | null
  hash: string
  /** About what its events take on disk. */
  bytes: number
  /** True from the first append of a transaction until its end. */
  isMoved: boolean
}

type KeptEvent = StoredEvent & { readonly epoch: number; readonly hash: string }

export class SqliteEvents {
  readonly #sql: Statements
  /** Only counts up: a transaction that was rolled back leaves a gap. */
  #lastId: number | undefined
  /** Written, but not yet flushed. */
  readonly #rows = new BatchInsert(
    'INSERT INTO events(id, key, prev, epoch, type, turn_id, body, hash) VALUES',
    '(?,?,?,?,?,?,?,unhex(?))',
  )
  readonly #heads = new BatchInsert(
    'INSERT INTO heads(sid, last_seq, head, bytes) VALUES',
    '(?,?,?,?)',
    'ON CONFLICT(sid) DO UPDATE SET last_seq=excluded.last_seq, head=excluded.head, bytes=excluded.bytes',
  )
  #moved: JournalEnd[] = []

  constructor(sql: Statements) {
    this.#sql = sql
  }

  /** The hash that a session's next event builds on. Undefined if its last event is missing. */
  hashAt({ sid, lastSeq, head }: EventsOf): string | undefined {
    if (lastSeq === 0) return CHAIN_START
    const row = this.#sql.get('SELECT hash FROM events WHERE id=? AND key=?', head, keyOf(sid, lastSeq))
    return row === undefined ? undefined : hexIn(row, 'hash')
  }

  /** Moves the session's end. The events are in the database after `flush`. */
  write(end: JournalEnd, events: readonly StoredEvent[]): void {
    this.#lastId ??= Number(this.#sql.get('SELECT max(id) AS id FROM events')?.['id'] ?? 0)
    for (const { type, turnId, body } of events) {
      end.lastSeq += 1
      end.hash = chainHash(end.hash, { seq: end.lastSeq, epoch: end.epoch, type, body })
      this.#lastId += 1
      this.#rows.add(this.#lastId, keyOf(end.sid, end.lastSeq), end.head, end.epoch, type, turnId, body, end.hash)
      end.head = this.#lastId
      end.bytes += body.length + EVENT_BYTES
    }
    if (end.isMoved) return
    end.isMoved = true
    this.#moved.push(end)
  }

  /** Writes pending events into the database, those of many sessions in one statement. */
  flush(): void {
    if (this.#rows.isEmpty) return
    for (const { sid, lastSeq, head, bytes } of this.#moved) this.#heads.add(sid, lastSeq, head, bytes)
    this.#rows.write(this.#sql)
    this.#heads.write(this.#sql)
  }

  /** At the end of a transaction: whose journals it moved. Events that were not flushed are dropped. */
  takeMoved(): readonly JournalEnd[] {
    const moved = this.#moved
    for (const end of moved) end.isMoved = false
    this.#moved = []
    this.#rows.clear()
    this.#heads.clear()
    return moved
  }

  /** The rows of the events after one seq and up to another, oldest first. */
  find({ sid, lastSeq, head }: EventsOf, after: number, upTo: number): Found {
    const last = Math.min(upTo, lastSeq)
    if (after >= last) return { ids: [], missing: undefined }
    const marked = this.#sql.get(NEXT_MARKED, keyOf(sid, last), keyOf(sid, lastSeq))
    const start = marked === undefined ? keyOf(sid, lastSeq) : numberIn(marked, 'key')
    const rows = this.#sql.all(
      BACKWARDS,
      marked === undefined ? head : numberIn(marked, 'id'),
      start,
      keyOf(sid, after),
    )
    const oldest = rows.at(-1)
    const lowest = seqOf(oldest === undefined ? start + 1 : numberIn(oldest, 'key'))
    return {
      ids: rows
        .slice(seqOf(start) - last)
        .map((row) => numberIn(row, 'id'))
        .toReversed(),
      missing: lowest > after + 1 ? lowest - 1 : undefined,
    }
  }

  at(id: number): KeptEvent {
    const row = this.#sql.get('SELECT * FROM events WHERE id=?', id) ?? {}
    return {
      seq: seqOf(numberIn(row, 'key')),
      type: textIn(row, 'type'),
      turnId: textIn(row, 'turn_id'),
      body: textIn(row, 'body'),
      epoch: numberIn(row, 'epoch'),
      hash: hexIn(row, 'hash'),
    }
  }

  /** Removes up to `count` of a session's last events. Returns what is left. */
  removeLast(session: EventsOf, count: number): EventsOf {
    const { sid, lastSeq } = session
    this.#moved = this.#moved.filter((end) => end.sid !== sid)
    const after = Math.max(lastSeq - count, 0)
    const { ids, missing } = this.find(session, after, lastSeq)
    if (missing !== undefined) {
      // A damaged session: events that its last event does not lead to are found by a full scan.
      this.#sql.run('DELETE FROM events WHERE key>=? AND key<?', keyOf(sid, 0), keyOf(sid + 1, 0))
      return { sid, lastSeq: 0, head: null }
    }
    const [first] = ids
    const before = first === undefined ? undefined : this.#sql.get('SELECT prev FROM events WHERE id=?', first)
    for (const id of ids) this.#sql.run('DELETE FROM events WHERE id=?', id)
    return { sid, lastSeq: after, head: before === undefined ? null : numberOrNullIn(before, 'prev') }
  }
}

// ---- details ----

const keyOf = (sid: number, seq: number): number => sid * SEQS_PER_SESSION + seq

const seqOf = (key: number): number => key % SEQS_PER_SESSION

const NEXT_MARKED = `SELECT id, key FROM events WHERE key>=? AND key<? AND ${IS_MARKED} ORDER BY key LIMIT 1`

/** I2: from one row to the one before it, as long as that is the preceding event. */
const BACKWARDS = `
  WITH RECURSIVE back(id, key, prev) AS (
    SELECT id, key, prev FROM events WHERE id=? AND key=?
    UNION ALL
    SELECT e.id, e.key, e.prev FROM back b JOIN events e ON e.id=b.prev WHERE e.key=b.key-1 AND e.key>?
  )
  SELECT id, key FROM back`
