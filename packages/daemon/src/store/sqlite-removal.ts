/**
 * What deleted sessions leave, removed piece by piece: their events lie among those of all others, and nobody else can append
 * while a piece is under way. A long session is gone for everybody at once; its events follow, also over a restart.
 *
 * I1  The number of a session is not given again while events of it are left.
 */
import { type Place, placeOf, type SqliteEvents } from './sqlite-events.ts'
import type { Statements } from './sqlite-statements.ts'

export class SqliteRemoval {
  readonly #sql: Statements
  readonly #events: SqliteEvents

  constructor(sql: Statements, events: SqliteEvents) {
    this.#sql = sql
    this.#events = events
  }

  /** I1 */
  freeSid(): number {
    const row = this.#sql.get(
      'SELECT (SELECT max(sid) FROM sessions) AS last, (SELECT max(sid) FROM removed) AS removed',
    )
    return Math.max(Number(row?.['last']), Number(row?.['removed'])) + 1
  }

  add({ sid, lastSeq, head }: Place): void {
    this.#sql.run('INSERT INTO removed(sid, last_seq, head) VALUES (?,?,?)', sid, lastSeq, head)
  }

  /** Removes a piece of what is left. */
  removeSome(): void {
    const [row] = this.#sql.all('SELECT sid, last_seq, head FROM removed LIMIT 1')
    if (row === undefined) return
    const place = placeOf(row)
    const rest = this.#events.removeLast(place, EVENTS_AT_ONCE)
    if (rest.lastSeq === 0) this.#sql.run('DELETE FROM removed WHERE sid=?', place.sid)
    else this.#sql.run('UPDATE removed SET last_seq=?, head=? WHERE sid=?', rest.lastSeq, rest.head, place.sid)
  }

  hasMore(): boolean {
    return this.#sql.get('SELECT 1 FROM removed LIMIT 1') !== undefined
  }
}

// ---- details ----

/** Each may lie on a page of its own: this many take about ten milliseconds. */
const EVENTS_AT_ONCE = 200
