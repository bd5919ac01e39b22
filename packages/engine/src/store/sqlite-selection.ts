/** Which sessions a list shows, as SQL. Pure. All of it reads the sessions' own rows, and the view of a turn whose prompt is long. */
import { SESSION_FILTERS, type SessionFilter } from '@breakfall/wire'
import { numberIn, type Row, type SqlValue } from './sqlite-statements.ts'
import type { SessionSelection } from './store.ts'

/**
 * The conditions of both stores. A parked turn needs a person by its `class`, as `needsPerson` of its `Wait` does; `quota_exceeded`
 * is how versions before `steps_spent` parked a turn without steps left.
 */
export const STATES: Readonly<Record<SessionFilter, string>> = {
  needs: `(quarantined IS NOT NULL OR unknown_outcomes > 0
    OR (turn_state = 'parked' AND (class = 'needs_action' OR category = 'quota_exceeded')))`,
  parked: `(turn_state = 'parked')`,
  retrying: `(turn_state = 'retrying')`,
  running: `(turn_state = 'running')`,
  queued: `(turn_state = 'queued')`,
  finished: `(turn_state = 'finished')`,
  failed: `(turn_state = 'failed')`,
  cancelled: `(turn_state = 'cancelled')`,
  unknown: '(unknown_outcomes > 0)',
  idle: '(turn_state IS NULL)',
}

export type Query = { readonly sql: string; readonly values: readonly SqlValue[] }

/** The rest of a query, after `FROM`. Ids are UUIDv7: sorted by id is sorted by age. */
export function pageQuery(selection: SessionSelection): Query {
  const { after, states, limit, newestBy } = selection
  const order = newestBy === 'updatedAt' ? 'updated_at DESC, id DESC' : 'id DESC'
  const conditions = [
    ...conditionsOf(selection),
    ...(after === undefined ? [] : [{ sql: 'id<?', values: [after] }]),
    ...(states === undefined ? [] : [{ sql: `(${states.map((state) => STATES[state]).join(' OR ')})`, values: [] }]),
  ]
  return { sql: `${where(conditions)} ORDER BY ${order} LIMIT ?`, values: [...valuesOf(conditions), limit] }
}

/** A whole query. It ignores the states and the page: each count is that of the list with that state. */
export function countQuery(selection: SessionSelection): Query {
  const conditions = conditionsOf(selection)
  const sums = SESSION_FILTERS.map((state) => `coalesce(sum(${STATES[state]}), 0) AS ${state}`)
  return { sql: `SELECT ${sums.join(', ')} FROM sessions ${where(conditions)}`, values: valuesOf(conditions) }
}

export function countsIn(row: Row): Record<SessionFilter, number> {
  const count = (state: SessionFilter): number => numberIn(row, state)
  return {
    needs: count('needs'),
    parked: count('parked'),
    retrying: count('retrying'),
    running: count('running'),
    queued: count('queued'),
    finished: count('finished'),
    failed: count('failed'),
    cancelled: count('cancelled'),
    unknown: count('unknown'),
    idle: count('idle'),
  }
}

// ---- details ----

const TITLE = `data ->> '$.title'`
const WORKSPACE = `data ->> '$.box.workspace'`
const PROMPT = `turn ->> '$.prompt'`
/** A row has 200 code units of the prompt, which are at least 100 characters. */
const IS_LONG = `length(${PROMPT})>=100`
const WHOLE_PROMPT = `(SELECT t.view ->> '$.prompt' FROM turns t WHERE t.turn_id=sessions.last_turn_id)`

function conditionsOf(selection: SessionSelection): readonly Query[] {
  const { category, text, workspace, updatedSince } = selection
  const part = `%${escaped(text ?? '')}%`
  const like = (column: string): string => `${column} LIKE ? ESCAPE '\\'`
  return [
    ...(selection.class === undefined ? [] : [{ sql: 'class=?', values: [selection.class] }]),
    ...(category === undefined ? [] : [{ sql: 'category=?', values: [category] }]),
    ...(workspace === undefined ? [] : [{ sql: `${WORKSPACE}=?`, values: [workspace] }]),
    ...(updatedSince === undefined ? [] : [{ sql: 'updated_at>=?', values: [updatedSince] }]),
    ...(text === undefined
      ? []
      : [
          {
            sql: `(${[like('id'), like(TITLE), like(WORKSPACE), like(PROMPT), `${IS_LONG} AND ${like(WHOLE_PROMPT)}`].join(' OR ')})`,
            values: [`${escaped(text)}%`, part, part, part, part],
          },
        ]),
  ]
}

/** The text itself, not a pattern. */
const escaped = (text: string): string => text.replaceAll(/[\\%_]/g, '\\$&')

const where = (conditions: readonly Query[]): string =>
  conditions.length === 0 ? '' : `WHERE ${conditions.map(({ sql }) => sql).join(' AND ')}`

const valuesOf = (conditions: readonly Query[]): SqlValue[] => conditions.flatMap(({ values }) => values)
