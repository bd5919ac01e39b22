/** Sessions, turns and the journal, over HTTP, SSE and WebSocket. */
export { type Daemon, startDaemon } from './daemon.ts'
export type { DaemonOptions } from './options.ts'
