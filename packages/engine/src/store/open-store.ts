/** Opens the store that the options name. PostgreSQL's client is only loaded by daemons that use it. */
import { hostname } from 'node:os'
import { join } from 'node:path'
import { redact } from '@breakfall/faults'
import type { EngineOptions } from '../options.ts'
import { openSqliteStore } from './sqlite-store.ts'
import type { Coordination } from './sharing.ts'
import type { Store } from './store.ts'

type SharedStoreView = { readonly store: string; readonly bootId: string; readonly name: string }

export async function openStore(
  { stateDir, store, now, journalPagesMax: pagesMax }: EngineOptions,
  version: string,
): Promise<Store> {
  if (store === undefined) return openSqliteStore(join(stateDir, 'journal'), { pagesMax, now })
  const { openPostgresStore } = await import('./postgres/postgres-store.ts')
  return openPostgresStore({ ...store, version, folder: join(stateDir, 'fleet') })
}

/** The shared store, without its password, and who this daemon is in it. */
export function sharedStore(
  { store }: EngineOptions,
  { lease: { bootId, name } }: Coordination,
): SharedStoreView | undefined {
  return store === undefined ? undefined : { store: redact(store.url), bootId, name }
}

/** Who answers, in a header: a name may have characters that no header can. */
export const shownName = ({ lease }: Coordination): string =>
  encodeURI(lease.isEndless ? hostname() : lease.name).replaceAll('%20', ' ')

export const passwordsIn = (urls: readonly (string | undefined)[]): readonly string[] =>
  urls
    .flatMap((url) => (url === undefined ? [] : [decodeURIComponent(new URL(url).password)]))
    .filter((word) => word !== '')
