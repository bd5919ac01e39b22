/** Brings a database to this version's schema, and says whether this daemon may use it. */
import { Fault } from '@breakfall/faults'
import { numberIn, type Row, textIn } from '../sqlite-statements.ts'
import type { Connection } from './connection.ts'
import { sqlState } from './pg-fault.ts'
import { MIGRATIONS, SCHEMA_VERSION } from './schema.ts'

export type FleetRow = {
  readonly schema: number
  readonly schemaMin: number
  /** Which cluster this is: a restored copy is another one. */
  readonly systemId: string
  readonly restores: number
  /** As the database says now. */
  readonly systemIdNow: string
}

/** Undefined if the database is empty. */
export async function fleetRow(connection: Connection): Promise<FleetRow | undefined> {
  try {
    const [row] = await connection.query(
      `SELECT schema, schema_min, system_id, restores, ${SYSTEM_ID} AS now FROM fleet`,
    )
    return row === undefined ? undefined : rowOf(row)
  } catch (error) {
    if (sqlState(error) === UNDEFINED_TABLE) return undefined
    throw error
  }
}

/** Returns the version before. Several daemons may start on an empty database at once: the others wait for the first. */
export async function migrate(connection: Connection): Promise<number> {
  const before = await fleetRow(connection)
  if (before === undefined) {
    await create(connection)
    return 0
  }
  refuseIfNewer(before)
  for (let version = before.schema; version < SCHEMA_VERSION; version += 1) {
    const { sql = '', schemaMin = 1 } = MIGRATIONS[version] ?? {}
    const lock = `SELECT schema FROM fleet WHERE schema = ${version} FOR UPDATE`
    const update = `UPDATE fleet SET schema = ${version + 1}, schema_min = ${schemaMin} WHERE schema = ${version}`
    await unlessMade(connection.script(`${lock}; ${sql}; ${update}`))
  }
  return before.schema
}

/** A restored copy starts a new era: no epoch of the original comes again. Returns false if this is no copy, or an adopted one. */
export async function adopt(connection: Connection): Promise<boolean> {
  if ((await fleetRow(connection)) === undefined) throw noTables()
  const changed = await connection.query(
    `UPDATE fleet SET system_id = ${SYSTEM_ID}, restores = restores + 1 WHERE system_id <> ${SYSTEM_ID} RETURNING restores`,
  )
  return changed.length > 0
}

export function refuseIfUnfit(fleet: FleetRow): void {
  refuseIfNewer(fleet)
  if (fleet.schema < SCHEMA_VERSION) {
    throw unfit(
      `The database has schema ${fleet.schema}; this version needs ${SCHEMA_VERSION}.`,
      'Run "breakfall store migrate" first.',
    )
  }
  if (fleet.systemId !== fleet.systemIdNow) {
    throw unfit(
      'The database is a copy: it was restored or dumped from another cluster, and events may be missing.',
      'Run "breakfall store adopt" if no daemon uses the original any more.',
    )
  }
}

/** Of a database that has not been migrated yet; or the address is that of another one. */
export const noTables = (): Fault =>
  new Fault('invalid_request', {
    boundary: 'journal',
    message: {
      happened: 'The database has no tables of Breakfall.',
      action: 'Nothing was read or written.',
      advice: 'Check its address, or run "breakfall store migrate" to create them.',
    },
    errorRaw: 'the table "fleet" does not exist',
  })

// ---- details ----

const UNDEFINED_TABLE = '42P01'
const UNIQUE_VIOLATION = '23505'
const DUPLICATE_TABLE = '42P07'
const DUPLICATE_FUNCTION = '42723'

/** Every role may read it, and a copy made by \`initdb\` has another one. */
const SYSTEM_ID = '(SELECT system_identifier::text FROM pg_control_system())'

async function create(connection: Connection): Promise<void> {
  const all = MIGRATIONS.map(({ sql }) => sql).join('\n')
  const schemaMin = MIGRATIONS.at(-1)?.schemaMin ?? 1
  const insert = `INSERT INTO fleet (schema, schema_min, system_id) VALUES (${SCHEMA_VERSION}, ${schemaMin}, ${SYSTEM_ID})`
  await unlessMade(connection.script(`${all}; ${insert}`))
}

/** If another process was faster, its commit is what the error waited for. */
async function unlessMade(making: Promise<void>): Promise<void> {
  try {
    await making
  } catch (error) {
    if (![UNIQUE_VIOLATION, DUPLICATE_TABLE, DUPLICATE_FUNCTION].includes(sqlState(error) ?? '')) throw error
  }
}

function refuseIfNewer({ schema, schemaMin }: FleetRow): void {
  if (SCHEMA_VERSION >= schemaMin) return
  throw unfit(
    `A newer version uses the database (schema ${schema}); it runs beside versions with schema ${schemaMin} or later, and this one has ${SCHEMA_VERSION}.`,
    'Start this daemon with that version.',
  )
}

const unfit = (happened: string, advice: string): Fault =>
  new Fault('journal_corrupt', { boundary: 'journal', message: { happened, advice } })

const rowOf = (row: Row): FleetRow => ({
  schema: numberIn(row, 'schema'),
  schemaMin: numberIn(row, 'schema_min'),
  systemId: textIn(row, 'system_id'),
  restores: numberIn(row, 'restores'),
  systemIdNow: textIn(row, 'now'),
})
