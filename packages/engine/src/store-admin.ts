/** What an operator does with stores: bring a database to this version, check journals, move sessions from one store to another. */
import { Connection } from './store/postgres/connection.ts'
import { adopt, fleetRow, migrate, noTables, refuseIfUnfit } from './store/postgres/migrate.ts'
import { openingFault, pgFault } from './store/postgres/pg-fault.ts'
import { PostgresDump } from './store/postgres/postgres-dump.ts'
import { SCHEMA_VERSION } from './store/postgres/schema.ts'
import {
  checkSessions,
  type Dumped,
  type DumpSource,
  type DumpTarget,
  exportSessions,
  importSessions,
} from './store/dump.ts'
import { storeFault } from './store/store-fault.ts'
import { openSqliteDump } from './store/sqlite-dump.ts'

/** A database, or the journal in a state folder. */
export type StorePlace = { readonly url: string } | { readonly stateDir: string }

/** Returns the versions before and after. */
export const migrateStore = (url: string): Promise<{ readonly before: number; readonly schema: number }> =>
  connected(url, 'Nothing was migrated.', async (connection) => ({
    before: await migrate(connection),
    schema: SCHEMA_VERSION,
  }))

/** Accepts a restored copy. No daemon may use the original any more. Returns false if there was nothing to accept. */
export const adoptStore = (url: string): Promise<boolean> => connected(url, 'Nothing was adopted.', adopt)

export async function checkStore(place: StorePlace): Promise<Dumped & { readonly problems: readonly string[] }> {
  return using(place, await opened(place), checkSessions)
}

export async function exportStore(place: StorePlace, write: (line: string) => Promise<void>): Promise<Dumped> {
  return using(place, await opened(place), (source) => exportSessions(source, write))
}

export async function importStore(place: StorePlace, lines: AsyncIterable<string>): Promise<Dumped> {
  return using(place, await opened(place, true), (target) => importSessions(lines, target))
}

// ---- details, in the order they are used above ----

/** `unopened` says what the command has done if the database cannot be opened at all. */
async function connected<T>(url: string, unopened: string, act: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = new Connection({ url, waitMs: 60_000 })
  try {
    await connection.query('SELECT 1').catch((error: unknown) => {
      throw openingFault(error, url, unopened)
    })
    return await act(connection)
  } catch (error) {
    throw pgFault(error)
  } finally {
    await connection.end()
  }
}

async function opened(place: StorePlace, create = false): Promise<DumpSource & DumpTarget> {
  if ('stateDir' in place) return openSqliteDump(place.stateDir, { create })
  await connected(place.url, 'Nothing was read or written.', async (connection) => {
    if (create) await migrate(connection)
    const fleet = await fleetRow(connection)
    if (fleet === undefined) throw noTables()
    refuseIfUnfit(fleet)
  })
  return new PostgresDump(place.url)
}

async function using<D extends { close(): Promise<void> }, T>(
  place: StorePlace,
  dump: D,
  act: (dump: D) => Promise<T>,
): Promise<T> {
  try {
    return await act(dump)
  } catch (error) {
    throw 'url' in place ? pgFault(error) : storeFault(error)
  } finally {
    await dump.close()
  }
}
