/** Which sessions a list shows, as SQL. Pure. All of it reads the sessions' own rows, and the view of a turn whose prompt is long. */
import { SESSION_FILTERS } from '@breakfall/wire'
import { countsIn, STATES } from '../sqlite-selection.ts'
import type { SessionSelection } from '../store.ts'
import type { PgValue } from './connection.ts'
import { isUuid } from './values.ts'

export { countsIn }

type Query = { readonly sql: string; readonly values: readonly PgValue[] }

/** The rest of a query, after `FROM`. Ids are UUIDv7: sorted by id is sorted by age. */
export function pageQuery(selection: SessionSelection): Query {
  const { after, states, limit } = selection
  const values = new Values()
  const conditions = [
    ...conditionsOf(selection, values),
    ...(after === undefined ? [] : [isUuid(after) ? `s.id < ${values.add(after)}::uuid` : 'false']),
    ...(states === undefined ? [] : [`(${states.map((state) => STATES[state]).join(' OR ')})`]),
  ]
  const order = selection.newestBy === 'updatedAt' ? 's.updated_at DESC, s.id DESC' : 's.id DESC'
  return { sql: `WHERE ${conditions.join(' AND ')} ORDER BY ${order} LIMIT ${values.add(limit)}`, values: values.all }
}

/** A whole query. It ignores the states and the page: each count is that of the list with that state. */
export function countQuery(selection: SessionSelection): Query {
  const values = new Values()
  const conditions = conditionsOf(selection, values)
  const counts = SESSION_FILTERS.map((state) => `count(*) FILTER (WHERE ${STATES[state]}) AS ${state}`)
  return { sql: `SELECT ${counts.join(', ')} FROM sessions s WHERE ${conditions.join(' AND ')}`, values: values.all }
}

// ---- details ----

class Values {
  readonly all: PgValue[] = []

  /** Returns its place in the statement. */
  add(value: PgValue): string {
    this.all.push(value)
    return `$${this.all.length}`
  }
}

/** A row has 200 code units of the prompt, which are at least 100 characters. */
const IS_LONG = 'length(s.prompt) >= 100'

/** As JSON has it, between its own name and that of the next member. Inside a prompt, quotes are escaped. */
const ESCAPED_PROMPT = `split_part(split_part(t.view, '"prompt":"', 2), '","steps":', 1)`

/** In this order: a pair of backslashes is out of the way first. JSON never has the character that stands for it. */
const ESCAPES = [
  ['\\\\', '\x01'],
  ['\\n', '\n'],
  ['\\r', '\r'],
  ['\\t', '\t'],
  ['\\"', '"'],
  ['\x01', '\\'],
] as const

/** By functions that take any text: PostgreSQL's JSON operators fail at a NUL, and then the whole list would. */
const PROMPT = ESCAPES.reduce((sql, [from, to]) => `replace(${sql}, '${from}', '${to}')`, ESCAPED_PROMPT)

const LAST_TURN = `SELECT 1 FROM turns t WHERE t.session_id = s.id AND starts_with(s.turn, '{"id":"' || t.turn_id || '"')`

function conditionsOf(selection: SessionSelection, values: Values): readonly string[] {
  const { category, text, workspace, updatedSince } = selection
  const like = (column: string, pattern: string): string => `${column} ILIKE ${values.add(pattern)}`
  const part = `%${escaped(text ?? '')}%`
  const asJson = `%${escaped(JSON.stringify(text ?? '').slice(1, -1))}%` // looked for first: it takes a third of the time
  return [
    'NOT s.deleting',
    ...(selection.class === undefined ? [] : [`s.class = ${values.add(selection.class)}`]),
    ...(category === undefined ? [] : [`s.category = ${values.add(category)}`]),
    ...(workspace === undefined ? [] : [`s.workspace = ${values.add(workspace)}`]),
    ...(updatedSince === undefined ? [] : [`s.updated_at >= ${values.add(updatedSince)}`]),
    ...(text === undefined
      ? []
      : [
          `(${[
            like('s.id::text', `${escaped(text)}%`),
            like('s.title', part),
            like('s.workspace', part),
            like('s.prompt', part),
            `${IS_LONG} AND EXISTS (${LAST_TURN} AND ${like('t.view', asJson)} AND ${like(PROMPT, part)})`,
          ].join(' OR ')})`,
        ]),
  ]
}

/** The text itself, not a pattern. PostgreSQL's own escape character is the backslash. */
const escaped = (text: string): string => text.replaceAll('\0', '').replaceAll(/[\\%_]/g, '\\$&')
