/** Faults by fingerprint, in the shared store: see `../seen.ts`. */
import { groupOf, occurrenceOf } from '../sqlite-faults.ts'
import { numberIn, type Row, textIn } from '../sqlite-statements.ts'
import { FAULT_FATES, type FaultNotes } from '../../turn/fault-history.ts'
import {
  type FaultGroup,
  type FaultOccurrence,
  type FaultSelection,
  type OccurrenceSelection,
} from '../fault-history.ts'
import type { Pool } from './pool.ts'
import { table } from './unnest.ts'
import { clean, isText, isUuid } from './values.ts'

/** What an append, or an import, says about a session's faults. */
type Noting = { readonly append: { readonly sessionId: string; readonly faults?: FaultNotes | undefined } }

/** What became of the earlier ones of a turn. */
export const FATES = table(
  { session_id: 'uuid', turn_id: 'uuid', became: 'text' },
  ({ append: { sessionId, faults } }: Noting) =>
    (faults?.fates ?? []).map(({ turnId, became }) => ({ session_id: sessionId, turn_id: turnId, became })),
)

export const FAULTS = table(
  {
    session_id: 'uuid',
    seq: 'int',
    turn_id: 'uuid',
    at: 'text',
    step: 'int',
    attempt: 'int',
    fingerprint: 'text',
    category: 'text',
    class: 'text',
    boundary: 'text',
    phase: 'text',
    error: 'text',
    error_raw: 'text',
    became: 'text',
  },
  ({ append: { sessionId, faults } }: Noting) =>
    (faults?.seen ?? []).map((fault) => ({
      session_id: sessionId,
      seq: fault.seq,
      turn_id: fault.turnId,
      at: fault.at,
      step: fault.step,
      attempt: fault.attempt,
      fingerprint: fault.fingerprint,
      category: clean(fault.category),
      class: clean(fault.class),
      boundary: clean(fault.boundary),
      phase: clean(fault.phase),
      error: clean(fault.error),
      error_raw: clean(fault.errorRaw),
      became: fault.became,
    })),
)

export class FaultRows {
  readonly #pool: Pool

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async groups(selection: FaultSelection): Promise<readonly FaultGroup[]> {
    const { since, class: wanted, fingerprint, after, isOpen = false, limit } = selection
    if (fingerprint !== undefined && !isText(fingerprint)) return []
    const values = [
      since ?? null,
      wanted ?? null,
      fingerprint ?? null,
      after?.lastAt ?? null,
      after?.fingerprint ?? null,
    ]
    const rows = await this.#pool.query(GROUPS, [...values, isOpen, limit])
    const names = rows.map((row) => textIn(row, 'fingerprint'))
    if (names.length === 0) return []
    const samples = (await this.#pool.query(SAMPLES, [names])).map(occurrenceOf)
    const hours = await this.#pool.query(HOURS, [names, selection.hoursFrom])
    return rows.flatMap((row) => {
      const name = textIn(row, 'fingerprint')
      const sample = samples.find((each) => each.fingerprint === name)
      return sample === undefined ? [] : [groupOf(row, sample, hoursIn(hours, name))]
    })
  }

  async occurrences(selection: OccurrenceSelection): Promise<readonly FaultOccurrence[]> {
    const { fingerprint, since = '', after, limit } = selection
    if (after !== undefined && !isUuid(after.sessionId)) return []
    const place = [after?.at ?? null, after?.sessionId ?? null, after?.seq ?? null]
    return (await this.#pool.query(OCCURRENCES, [fingerprint, since, ...place, limit])).map(occurrenceOf)
  }
}

// ---- details, in the order they are used above ----

const COUNTS = FAULT_FATES.map((fate) => `count(*) FILTER (WHERE f.became = '${fate}') AS ${fate}`).join(', ')

const GROUPS = `
SELECT f.fingerprint, count(*) AS count, count(DISTINCT f.session_id) AS sessions, min(f.at) AS first_at, max(f.at) AS last_at, ${COUNTS}
FROM faults f JOIN sessions s ON s.id = f.session_id AND NOT s.deleting
WHERE ($1::text IS NULL OR f.at >= $1) AND ($2::text IS NULL OR f.class = $2) AND ($3::text IS NULL OR f.fingerprint = $3)
GROUP BY f.fingerprint
HAVING ($4::text IS NULL OR (max(f.at), f.fingerprint) < ($4, $5::text))
  AND (NOT $6::bool OR count(*) FILTER (WHERE f.became IN ('open', 'parked')) > 0)
ORDER BY last_at DESC, f.fingerprint DESC LIMIT $7`

const OCCURRENCE = `f.*, s.title AS session_title FROM faults f JOIN sessions s ON s.id = f.session_id AND NOT s.deleting`

const SAMPLES = `
SELECT DISTINCT ON (f.fingerprint) ${OCCURRENCE} WHERE f.fingerprint = ANY ($1::text[])
ORDER BY f.fingerprint, f.at DESC, f.session_id DESC, f.seq DESC`

const HOURS = `
SELECT f.fingerprint, substr(f.at, 1, 13) AS hour, count(*) AS count
FROM faults f JOIN sessions s ON s.id = f.session_id AND NOT s.deleting
WHERE f.fingerprint = ANY ($1::text[]) AND f.at >= $2 GROUP BY 1, 2`

const OCCURRENCES = `
SELECT ${OCCURRENCE}
WHERE f.fingerprint = $1 AND f.at >= $2 AND ($3::text IS NULL OR (f.at, f.session_id, f.seq) < ($3, $4::uuid, $5::int))
ORDER BY f.at DESC, f.session_id DESC, f.seq DESC LIMIT $6`

const hoursIn = (rows: readonly Row[], fingerprint: string): Readonly<Record<string, number>> =>
  Object.fromEntries(
    rows.flatMap((row) => (row['fingerprint'] === fingerprint ? [[textIn(row, 'hour'), numberIn(row, 'count')]] : [])),
  )
