/** Connects what shows the whole daemon: the system as one value, and the hub that tells watchers what changed. */
import { changedSince, countsOf, overviewOf, type Sessions, WatchHub } from '@breakfall/engine'
import type { DaemonOptions } from './options.ts'
import { type SystemParts, SystemView } from './system.ts'

type WatchingParts = Omit<SystemParts, 'fixed'> & {
  readonly sessions: Sessions
  readonly options: Pick<DaemonOptions, 'stateDir' | 'gateway' | 'chaos'>
  readonly version: string
  readonly tokenFile: string
  readonly onError: (error: unknown) => void
}

export function watching(parts: WatchingParts): { readonly system: SystemView; readonly hub: WatchHub } {
  const { store, sessions, clock, options, version, tokenFile, onError } = parts
  const { stateDir, gateway, chaos } = options
  const { bootId } = store.lease // as in the list of daemons
  const startedAt = new Date(clock.now()).toISOString()
  const has = { gateway: gateway !== undefined, chaos: chaos !== undefined }
  const system = new SystemView({ ...parts, fixed: { bootId, version, startedAt, tokenFile, stateDir, ...has } })
  const hub = new WatchHub({
    clock,
    bootId,
    overview: () => overviewOf(store, (row) => sessions.viewOf(row)),
    session: (id) => sessions.find(id),
    counts: () => countsOf(store),
    system: () => system.read(),
    changedSince: store.lease.isEndless ? undefined : (since) => changedSince(store, since),
    gateway,
    onError,
  })
  return { system, hub }
}
