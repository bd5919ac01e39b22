/** The views of turns, and the summary of a session's last turn beside the session. */
import { jsonIn, type Row, type Statements, textIn } from './sqlite-statements.ts'
import type { Append, TurnRow } from './store.ts'

export type TurnPage = { readonly before?: string | undefined; readonly limit: number }

export class SqliteTurns {
  readonly #sql: Statements

  constructor(sql: Statements) {
    this.#sql = sql
  }

  get(turnId: string): TurnRow | undefined {
    const row = this.#sql.get(
      'SELECT t.turn_id, t.view, t.cancel, s.id AS session_id FROM turns t JOIN sessions s USING (sid) WHERE t.turn_id=?',
      turnId,
    )
    return row === undefined ? undefined : turnOf(row)
  }

  list(sessionId: string, page: TurnPage): readonly TurnRow[] {
    // Ids are UUIDv7, as those of sessions.
    const rows = this.#sql.all(
      `SELECT t.turn_id, t.view, t.cancel, s.id AS session_id FROM turns t JOIN sessions s USING (sid)
       WHERE s.id=? AND t.turn_id<? ORDER BY t.turn_id DESC LIMIT ?`,
      sessionId,
      page.before ?? AFTER_ALL_IDS,
      page.limit,
    )
    return rows.map(turnOf)
  }

  put(sid: number, turn: TurnRow): void {
    this.#sql.run(
      `INSERT INTO turns(turn_id, sid, view, cancel) VALUES (?,?,?,?)
       ON CONFLICT(turn_id) DO UPDATE SET view=excluded.view, cancel=excluded.cancel`,
      turn.turnId,
      sid,
      JSON.stringify(turn.view),
      turn.cancel === null ? null : JSON.stringify(turn.cancel),
    )
  }

  putSummary(sid: number, { turn, updatedAt }: NonNullable<Append['summary']>): void {
    this.#sql.run(
      `UPDATE sessions SET updated_at=?, last_turn_id=?, turn_state=?, category=?, class=?, unknown_outcomes=?, turn=?
       WHERE sid=?`,
      updatedAt,
      turn?.id ?? null,
      turn?.state ?? null,
      turn?.fault?.category ?? null,
      turn?.fault?.class ?? null,
      turn?.unknownOutcomes ?? 0,
      turn === null ? null : JSON.stringify(turn),
      sid,
    )
  }
}

// ---- details ----

const turnOf = (row: Row): TurnRow => ({
  turnId: textIn(row, 'turn_id'),
  sessionId: textIn(row, 'session_id'),
  view: jsonIn<TurnRow['view']>(row, 'view'),
  cancel: jsonIn<TurnRow['cancel']>(row, 'cancel'),
})

/** Sorts after every id. */
const AFTER_ALL_IDS = '~'
