/** Sessions, turns and the journal, over HTTP, SSE and WebSocket. */
export { type Daemon, startDaemon } from './daemon.ts'
export type { Sessions } from './engine/sessions.ts'
export {
  type CustomToolConfig,
  type DaemonOptions,
  type LiveConfig,
  type ModelConfig,
  type ProviderConfig,
  type RunnerConfig,
  type UnfinishedTurn,
} from './options.ts'
export { readEarlierFolders } from './runner/earlier-folders.ts'
export { remoteRunner } from './runner/endpoint.ts'
export { adoptStore, checkStore, exportStore, importStore, migrateStore, type StorePlace } from './store-admin.ts'
export { openPostgresStore } from './store/postgres/postgres-store.ts'
export { openSqliteStore } from './store/sqlite-store.ts'
export type { Store } from './store/store.ts'
