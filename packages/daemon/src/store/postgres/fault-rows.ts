/** Faults by fingerprint, in the shared store: see `../seen.ts`. */
import { groupOf, occurrenceOf } from '../sqlite-faults.ts'
import { numberIn, type Row, textIn } from '../sqlite-statements.ts'
import {
  FAULT_FATES,
  type FaultGroup,
  type FaultNotes,
  type FaultOccurrence,
  type FaultSelection,
  type OccurrenceSelection,
} from '../seen.ts'
import type { PgValue } from './connection.ts'
import type { Pool } from './pool.ts'
import { clean, isText, isUuid } from './values.ts'

/** The parts of an append that write faults. `first` is the number of their first value. */
export function faultParts(first: number): string {
  const [of, turn, became, ...rest] = [...FATE_TYPES, ...FAULT_TYPES].map(
    (type, index) => `$${first + index}::${type}[]`,
  )
  return `
g AS (
  UPDATE faults f SET became = g.became
  FROM unnest(${of}, ${turn}, ${became}) AS g(session_id, turn_id, became) JOIN h USING (session_id)
  WHERE f.turn_id = g.turn_id AND f.became IN ('open', 'parked')
),
f AS (
  INSERT INTO faults (${COLUMNS})
  SELECT ${COLUMNS} FROM unnest(${rest.join(', ')}) AS f(${COLUMNS}) JOIN h USING (session_id)
)`
}

type Noted = { readonly sessionId: string; readonly faults?: FaultNotes | undefined }

export function faultValues(appends: readonly Noted[]): readonly PgValue[] {
  const fates = appends.flatMap(({ sessionId, faults }) =>
    (faults?.fates ?? []).map((fate) => ({ sessionId, ...fate })),
  )
  return [
    fates.map(({ sessionId }) => sessionId),
    fates.map(({ turnId }) => turnId),
    fates.map(({ became }) => became),
    ...rowValues(appends),
  ]
}

/** Of a session that is imported. */
export const importedFaults = (noted: Noted): { readonly text: string; readonly values: readonly PgValue[] } => ({
  text: `INSERT INTO faults (${COLUMNS}) SELECT * FROM unnest(${FAULT_TYPES.map((type, index) => `$${index + 1}::${type}[]`).join(', ')})`,
  values: rowValues([noted]),
})

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

const FATE_TYPES = ['uuid', 'uuid', 'text']

const FAULT_COLUMNS = {
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
} as const

const FAULT_TYPES = Object.values(FAULT_COLUMNS)
const COLUMNS = Object.keys(FAULT_COLUMNS).join(', ')

function rowValues(appends: readonly Noted[]): readonly PgValue[] {
  const seen = appends.flatMap(({ sessionId, faults }) =>
    (faults?.seen ?? []).map((fault) => ({ sessionId, ...fault })),
  )
  return [
    seen.map(({ sessionId }) => sessionId),
    seen.map(({ seq }) => seq),
    seen.map(({ turnId }) => turnId),
    seen.map(({ at }) => at),
    seen.map(({ step }) => step),
    seen.map(({ attempt }) => attempt),
    seen.map(({ fingerprint }) => fingerprint),
    seen.map(({ category }) => clean(category)),
    seen.map((fault) => clean(fault.class)),
    seen.map(({ boundary }) => clean(boundary)),
    seen.map(({ phase }) => clean(phase)),
    seen.map(({ error }) => clean(error)),
    seen.map(({ errorRaw }) => clean(errorRaw)),
    seen.map(({ became }) => became),
  ]
}

const FATES = FAULT_FATES.map((fate) => `count(*) FILTER (WHERE f.became = '${fate}') AS ${fate}`).join(', ')

const GROUPS = `
SELECT f.fingerprint, count(*) AS count, count(DISTINCT f.session_id) AS sessions, min(f.at) AS first_at, max(f.at) AS last_at, ${FATES}
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
