/** A proxy that makes any agent's model stream survive. */
export { type Gateway, startGateway } from './gateway.ts'
export type { UpstreamHealth } from './health.ts'
export type { GatewayLog, GatewayLogEntry } from './log.ts'
export { GATEWAY_LIMITS, type GatewayLimits, type GatewayOptions, type Upstream } from './options.ts'
export type { GatewaySnapshot, GatewayTotals, GatewayWatch, LiveStream, WatchNote } from './watch.ts'
