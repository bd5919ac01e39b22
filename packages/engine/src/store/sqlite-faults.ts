/** Faults by fingerprint, in SQLite: see `seen.ts`. */
import {
  numberIn,
  numberOrNullIn,
  type Row,
  type SqlValue,
  type Statements,
  textIn,
  textOrNullIn,
} from './sqlite-statements.ts'
import { FAULT_FATES, type FaultFate, type FaultNotes } from '../turn/fault-history.ts'
import {
  type FaultGroup,
  type FaultOccurrence,
  type FaultSelection,
  type OccurrenceSelection,
} from './fault-history.ts'

export const FAULTS_TABLE = `
CREATE TABLE faults (
  sid INTEGER NOT NULL REFERENCES sessions(sid) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  turn_id TEXT NOT NULL,
  at TEXT NOT NULL,
  step INTEGER,
  attempt INTEGER,
  fingerprint TEXT NOT NULL,
  category TEXT NOT NULL,
  class TEXT NOT NULL,
  boundary TEXT NOT NULL,
  phase TEXT,
  error TEXT NOT NULL,
  error_raw TEXT NOT NULL,
  became TEXT NOT NULL,
  PRIMARY KEY (sid, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX faults_by_group ON faults(fingerprint, at);
CREATE INDEX faults_by_time ON faults(at);
CREATE INDEX faults_unsettled ON faults(turn_id) WHERE became IN ('open', 'parked');
`

export class SqliteFaults {
  readonly #sql: Statements

  constructor(sql: Statements) {
    this.#sql = sql
  }

  write(sid: number, notes: FaultNotes | undefined): void {
    for (const { turnId, became } of notes?.fates ?? [])
      this.#sql.run("UPDATE faults SET became=? WHERE turn_id=? AND became IN ('open', 'parked')", became, turnId)
    for (const {
      seq,
      turnId,
      at,
      step,
      attempt,
      fingerprint,
      category,
      boundary,
      phase,
      error,
      ...one
    } of notes?.seen ?? []) {
      const what = [fingerprint, category, one.class, boundary, phase, error, one.errorRaw, one.became]
      this.#sql.run(INSERT, sid, seq, turnId, at, step, attempt, ...what)
    }
  }

  groups(selection: FaultSelection): readonly FaultGroup[] {
    const { after, limit, isOpen = false } = selection
    const { sql, values } = conditionsOf(selection)
    const page = after === undefined ? [] : [after.lastAt, after.fingerprint]
    const rows = this.#sql.all(
      `SELECT fingerprint, count(*) AS count, count(DISTINCT sid) AS sessions, min(at) AS first_at, max(at) AS last_at, ${FATES}
       FROM faults ${sql} GROUP BY fingerprint
       HAVING 1 ${isOpen ? 'AND open+parked>0' : ''} ${after === undefined ? '' : 'AND (max(at), fingerprint)<(?,?)'}
       ORDER BY last_at DESC, fingerprint DESC LIMIT ?`,
      ...values,
      ...page,
      limit,
    )
    return rows.flatMap((row) => {
      const fingerprint = textIn(row, 'fingerprint')
      const [sample] = this.occurrences({ fingerprint, limit: 1 })
      return sample === undefined ? [] : [groupOf(row, sample, this.#hours(fingerprint, selection.hoursFrom))]
    })
  }

  occurrences({ fingerprint, since = '', after, limit }: OccurrenceSelection): readonly FaultOccurrence[] {
    const page = after === undefined ? [] : [after.at, after.sessionId, after.seq]
    const rows = this.#sql.all(
      `SELECT f.*, s.id AS session_id, s.data ->> '$.title' AS session_title FROM faults f JOIN sessions s USING (sid)
       WHERE f.fingerprint=? AND f.at>=? ${after === undefined ? '' : 'AND (f.at, s.id, f.seq)<(?,?,?)'}
       ORDER BY f.at DESC, s.id DESC, f.seq DESC LIMIT ?`,
      fingerprint,
      since,
      ...page,
      limit,
    )
    return rows.map(occurrenceOf)
  }

  #hours(fingerprint: string, from: string): Readonly<Record<string, number>> {
    const rows = this.#sql.all(
      'SELECT substr(at, 1, 13) AS hour, count(*) AS count FROM faults WHERE fingerprint=? AND at>=? GROUP BY 1',
      fingerprint,
      from,
    )
    return Object.fromEntries(rows.map((row) => [textIn(row, 'hour'), numberIn(row, 'count')]))
  }
}

export function groupOf(row: Row, sample: FaultOccurrence, hours: FaultGroup['hours']): FaultGroup {
  const fate = (name: FaultFate): number => numberIn(row, name)
  return {
    fingerprint: textIn(row, 'fingerprint'),
    count: numberIn(row, 'count'),
    sessions: numberIn(row, 'sessions'),
    firstAt: textIn(row, 'first_at'),
    lastAt: textIn(row, 'last_at'),
    fates: { open: fate('open'), parked: fate('parked'), survived: fate('survived'), ended: fate('ended') },
    sample,
    hours,
  }
}

export const occurrenceOf = (row: Row): FaultOccurrence => ({
  sessionId: textIn(row, 'session_id'),
  sessionTitle: textOrNullIn(row, 'session_title') || null,
  seq: numberIn(row, 'seq'),
  turnId: textIn(row, 'turn_id'),
  at: textIn(row, 'at'),
  step: numberOrNullIn(row, 'step'),
  attempt: numberOrNullIn(row, 'attempt'),
  fingerprint: textIn(row, 'fingerprint'),
  category: textIn(row, 'category'),
  class: textIn(row, 'class'),
  boundary: textIn(row, 'boundary'),
  phase: textOrNullIn(row, 'phase'),
  error: textIn(row, 'error'),
  errorRaw: textIn(row, 'error_raw'),
  became: FAULT_FATES.find((fate) => fate === row['became']) ?? 'open',
})

// ---- details ----

const INSERT = `INSERT INTO faults(sid, seq, turn_id, at, step, attempt, fingerprint, category, class, boundary, phase, error,
  error_raw, became) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

const FATES = FAULT_FATES.map((fate) => `sum(became='${fate}') AS ${fate}`).join(', ')

function conditionsOf(selection: FaultSelection): { readonly sql: string; readonly values: readonly SqlValue[] } {
  const { since, class: wanted, fingerprint } = selection
  const given = [
    ['at>=?', since],
    ['class=?', wanted],
    ['fingerprint=?', fingerprint],
  ] as const
  const used = given.flatMap(([sql, value]) => (value === undefined ? [] : [{ sql, value }]))
  const sql = used.length === 0 ? '' : `WHERE ${used.map((each) => each.sql).join(' AND ')}`
  return { sql, values: used.map(({ value }) => value) }
}
