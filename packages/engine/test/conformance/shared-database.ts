/** A database of a test file's own, and the stores that share it. */
import { after, before, beforeEach, type TestContext } from 'node:test'
import { join } from 'node:path'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { type Database, newDatabase } from '../../../../test/kit/postgres.ts'
import { TcpProxy } from '../../../../test/kit/tcp-proxy.ts'
import type { Store } from '../../src/store/store.ts'
import { openDaemon } from './postgres-adapter.ts'
import { TURN_ID } from './store-kit.ts'

export { isAppend } from './store-kit.ts'

let database: Database
before(async () => {
  database = await newDatabase()
})
after(() => database.close())
beforeEach(async () => {
  const [has] = await database.query("SELECT to_regclass('sessions') AS it")
  if (has?.['it'] !== null) await database.query('TRUNCATE sessions, heads, events, keys, daemons, runners CASCADE')
})

export const query: Database['query'] = (...given) => database.query(...given)

/** The store of one more daemon. */
export async function opened(
  t: TestContext,
  options: { leaseMs?: number; url?: string; folder?: string } = {},
): Promise<Store> {
  const { leaseMs, url = database.url, folder = join(tempFolder(t), 'daemon') } = options
  const store = await openDaemon(url, folder, leaseMs)
  atEnd(t, () => store.close())
  return store
}

/** A way to the database that can be cut. */
export async function proxied(t: TestContext): Promise<{ proxy: TcpProxy; url: string }> {
  const url = new URL(database.url)
  const proxy = await TcpProxy.start(Number(url.port))
  atEnd(t, () => proxy[Symbol.asyncDispose]())
  url.port = String(proxy.port)
  return { proxy, url: url.href }
}

export const busy = { state: 'busy', turnId: TURN_ID } as const
export const free = { wakeAt: '2020-01-01T00:00:00.000Z', waitFor: null }
