/** The PostgreSQL store, for the suites that every store must pass. All places are in one database: they share nothing but that. */
import { join } from 'node:path'
import { newFolder, removeFolder } from '../../../../test/kit/folder.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Adapter } from './store-suite.ts'

/** `clear` empties the database between places: lists and counts are of the whole store. */
export const postgresAdapter = (url: () => string, clear: () => Promise<unknown>): Adapter => ({
  name: 'postgres',
  place: () => {
    const folder = newFolder('store')
    return {
      open: () => openDaemon(url(), join(folder, 'a')),
      remove: async () => {
        await clear()
        removeFolder(folder)
      },
    }
  },
})

/** As one daemon of several: each has its own folder. */
export const openDaemon = (url: string, folder: string, leaseMs = 15_000): Promise<Store> =>
  openPostgresStore({ url, folder, name: folder.split('/').at(-1) ?? '', version: '0', leaseMs })
