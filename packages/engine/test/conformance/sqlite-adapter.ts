/** The SQLite store, for the suites that every store must pass. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqliteStore } from '../../src/store/sqlite-store.ts'
import type { Adapter } from './store-suite.ts'

export const sqliteAdapter: Adapter = {
  name: 'node:sqlite',
  place: () => {
    const folder = mkdtempSync(join(tmpdir(), 'breakfall-store-'))
    return {
      open: () => openSqliteStore(folder, { reserveBytes: 4096 }),
      remove: () => Promise.resolve(rmSync(folder, { recursive: true, force: true })),
    }
  },
}
