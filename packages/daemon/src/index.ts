/** Sessions, turns and the journal, over HTTP, SSE and WebSocket. */
export { type Daemon, startDaemon } from './daemon.ts'
export type { LiveSession } from './engine/live-session.ts'
export { type PromptRequest, type Receipt, type Sessions } from './engine/sessions.ts'
export {
  DAEMON_LIMITS,
  type DaemonLimits,
  type DaemonOptions,
  type LiveConfig,
  type ModelConfig,
  type ModelEndpoint,
  resolvePolicy,
  type RunnerConfig,
} from './options.ts'
export { remoteRunner } from './runner/endpoint.ts'
export { type LocalRunner, readRunnerFile, runnerTokenFile } from './runner/local-runner.ts'
export { type JournalReader, readJournal } from './store/sqlite-reader.ts'
export { openSqliteStore } from './store/sqlite-store.ts'
export type { Store } from './store/store.ts'
export { DEFAULT_SYSTEM_PROMPT } from './system-prompt.ts'
