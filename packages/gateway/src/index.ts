/** A proxy that makes any agent's model stream survive. */
export { type Gateway, startGateway } from './gateway.ts'
export type { GatewayLog, GatewayLogEntry } from './log.ts'
export type { GatewayOptions, Upstream } from './options.ts'
export type { GatewaySnapshot, GatewayTotals, LiveStream, WatchNote } from './watch.ts'
