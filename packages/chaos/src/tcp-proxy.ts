/** A TCP proxy with toxics, for anything that speaks TCP: a database, a runner, a model server. */
import { connect } from 'node:net'
import { createListener } from './listener.ts'
import { readPlan } from './plan.ts'
import { relay } from './relay.ts'
import type { Toxic } from './toxics.ts'

export type TcpProxyOptions = {
  readonly upstream: { readonly host?: string; readonly port: number }
  readonly toxics?: readonly (Partial<Toxic> & { readonly type: Toxic['type'] })[]
  readonly seed?: number
  readonly host?: string
  readonly port?: number
}

export type TcpProxy = {
  readonly host: string
  readonly port: number
  /** Replaces the toxics for new connections. */
  setToxics(toxics: TcpProxyOptions['toxics']): void
  /** Resets open connections and refuses new ones, until `up`. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
}

export async function startTcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const { upstream, seed = 1, host = '127.0.0.1' } = options
  let toxics = readPlan({ toxics: options.toxics ?? [] }).toxics
  let connections = 0
  const listener = createListener(host, (client) => {
    const server = connect({ host: upstream.host ?? '127.0.0.1', port: upstream.port, allowHalfOpen: true })
    relay(client, server, toxics, seed, (connections += 1))
  })
  const port = await listener.open(options.port ?? 0)
  return {
    host,
    port,
    setToxics: (next) => {
      toxics = readPlan({ toxics: next ?? [] }).toxics
    },
    down: () => listener.close({ reset: true }),
    up: async () => {
      await listener.open(port)
    },
    close: () => listener.close({ reset: true }),
  }
}
