/** Sessions, turns and the journal, without a server. For the programs of this repository: what it exports may change. */
export { assemble } from './assemble.ts'
export { type Clock, systemClock } from './clock.ts'
export type { Engine } from './loop/engine.ts'
export { type FedEvent, type Feed, REWOUND } from './session/feed.ts'
export type { SessionReading } from './service/loader.ts'
export { changedSince, countsOf, overviewOf } from './service/session-overview.ts'
export type { SessionProcesses } from './service/session-processes.ts'
export type { Sessions } from './service/sessions.ts'
export type { OutputRequest } from './service/stored-output.ts'
export type { CheckpointChoice, Undoing } from './service/undo.ts'
export { WatchHub } from './service/watch-hub.ts'
export type { ConfigReader } from './live-config.ts'
export type { Log } from './log.ts'
export { type OpenEngine, openEngine } from './open-engine.ts'
export {
  type CustomToolConfig,
  ENGINE_LIMITS,
  type EngineOptions,
  type LiveConfig,
  type ModelConfig,
  type ProviderConfig,
  type RunnerConfig,
  type UnfinishedTurn,
} from './options.ts'
export type { McpServers } from './tools/mcp-servers.ts'
export { providersOf, shownUrl } from './providers/bind.ts'
export type { Providers } from './providers/providers.ts'
export { readEarlierFolders } from './runner/earlier-folders.ts'
export { remoteRunner } from './runner/endpoint.ts'
export { findRunner } from './runner/find-runner.ts'
export type { Registration } from './runner/registration.ts'
export type { ConnectedRunner, Runners } from './runner/runners.ts'
export { Secrets } from './secrets.ts'
export { adoptStore, checkStore, exportStore, importStore, migrateStore, type StorePlace } from './store-admin.ts'
export { sharedStore, shownName } from './store/open-store.ts'
export { openPostgresStore } from './store/postgres/postgres-store.ts'
export type { FaultGroup, FaultOccurrence, FaultSelection, OccurrenceSelection } from './store/fault-history.ts'
export type { Coordination, DaemonRow, RunnerRegistry, RunnerRow, RunnerState } from './store/sharing.ts'
export { openSqliteStore } from './store/sqlite-store.ts'
export type { Journal, Store, StoredEvent } from './store/store.ts'
export { redactTexts, redactUnknown } from './turn/redact-event.ts'
export type { TurnFold } from './turn/state.ts'
