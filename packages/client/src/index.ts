/** Typed client of the daemon's API, for Node and browsers. It loads no schema library. */
export { DaemonClient, type SessionViewer } from './client.ts'
export type { ClientOptions } from './core.ts'
export { RECONNECT_POLICY } from './limits.ts'
export type { EventsOptions } from './events.ts'
export type { DaemonAddress } from './address.ts'
export type { DaemonHealth, DaemonModel, DaemonReadiness, DiffQuery, SessionPage, TurnPage } from './daemon-shapes.ts'
export type { TurnReceipt } from './shapes.ts'
export type { Pruned, PruneInput, Session, SessionCreate, SessionEvent, SessionQuery, Turn } from '@breakfall/wire'
/** Faults are thrown as values of this class; test for one with `isFault(error)`. */
export { isFault, type FaultCategory, type FaultReport, type ReportedFault } from '@breakfall/faults/caller'
