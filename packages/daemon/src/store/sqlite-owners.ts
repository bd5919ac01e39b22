/** Which sessions this opening of the store owns, and when those without an owner are due. */
import { numberIn, type Statements, textIn } from './sqlite-statements.ts'
import type { Append, Wait, WorkQuery } from './store.ts'

export class SqliteOwners {
  readonly #sql: Statements
  readonly #bootId: string

  constructor(sql: Statements, bootId: string) {
    this.#sql = sql
    this.#bootId = bootId
  }

  claim(id: string): void {
    this.#sql.run('UPDATE sessions SET epoch=epoch+1, owner=?, wait_for=NULL WHERE id=?', this.#bootId, id)
  }

  /** Ids of sessions to claim. */
  due({ limit, suspects = false }: WorkQuery): readonly string[] {
    const rows = this.#sql.all(
      `SELECT id FROM sessions WHERE state<>'idle' AND quarantined IS NULL AND owner IS NOT ? AND wake_at<=strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
       AND (suspect>=${SUSPECT_MIN})=? ORDER BY suspect, sid LIMIT ?`,
      this.#bootId,
      suspects ? 1 : 0,
      limit,
    )
    return rows.map((row) => textIn(row, 'id'))
  }

  isRaised(id: string, epoch: number, above: number): boolean {
    const sql = 'UPDATE sessions SET epoch=max(epoch, ?)+1 WHERE id=? AND epoch=?'
    return this.#sql.run(sql, above, id, epoch).changes !== 0
  }

  update(sid: number, { suspect, release }: Append): void {
    if (suspect !== undefined) this.#sql.run('UPDATE sessions SET suspect=? WHERE sid=?', suspect, sid)
    if (release === undefined) return
    const sql = 'UPDATE sessions SET owner=NULL, wake_at=?, wait_for=? WHERE sid=?'
    this.#sql.run(sql, release.wakeAt ?? NEVER, release.waitFor, sid)
  }

  waits(): readonly Wait[] {
    const rows = this.#sql.all(
      'SELECT wait_for, count(*) AS sessions FROM sessions WHERE wait_for IS NOT NULL AND owner IS NULL GROUP BY 1',
    )
    return rows.map((row) => ({ waitFor: textIn(row, 'wait_for'), sessions: numberIn(row, 'sessions') }))
  }

  wake(waitFor: string, limit = -1): number {
    const which = 'SELECT sid FROM sessions WHERE wait_for=? AND owner IS NULL ORDER BY sid LIMIT ?'
    const sql = `UPDATE sessions SET wake_at='', wait_for=NULL WHERE sid IN (${which})`
    return Number(this.#sql.run(sql, waitFor, limit).changes)
  }
}

// ---- details ----

/** Takeovers without progress from which on a session is claimed last. */
const SUSPECT_MIN = 2

/** Sorts after every time in ISO 8601. */
const NEVER = 'never'
