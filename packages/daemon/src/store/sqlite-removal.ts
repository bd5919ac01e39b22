/**
 * Removes the events of deleted sessions in batches: they are scattered among all other events, and no session can append while
 * a batch is removed. A deleted session disappears at once; its events follow, also across a restart.
 *
 * I1  A session's number is not reused while events of it are left.
 */
import { eventsOf, type EventsOf, type SqliteEvents } from './sqlite-events.ts'
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

  add({ sid, lastSeq, head }: EventsOf): void {
    this.#sql.run('INSERT INTO removed(sid, last_seq, head) VALUES (?,?,?)', sid, lastSeq, head)
  }

  /** Removes one batch. */
  removeSome(): void {
    const [row] = this.#sql.all('SELECT sid, last_seq, head FROM removed LIMIT 1')
    if (row === undefined) return
    const session = eventsOf(row)
    const rest = this.#events.removeLast(session, EVENTS_AT_ONCE)
    if (rest.lastSeq === 0) this.#sql.run('DELETE FROM removed WHERE sid=?', session.sid)
    else this.#sql.run('UPDATE removed SET last_seq=?, head=? WHERE sid=?', rest.lastSeq, rest.head, session.sid)
  }

  hasMore(): boolean {
    return this.#sql.get('SELECT 1 FROM removed LIMIT 1') !== undefined
  }
}

// ---- details ----

/** Each event may be on a different page: this many take about ten milliseconds. */
const EVENTS_AT_ONCE = 200
