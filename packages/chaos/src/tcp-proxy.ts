/** A TCP proxy with toxics, for anything that speaks over TCP: a database, a runner, a model server. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
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
  /** Replaces the toxics, for connections made from now on. */
  setToxics(toxics: TcpProxyOptions['toxics']): void
  /** Refuses connections and resets the ones that are open, until `up`. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
}

export async function startTcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const { upstream, seed = 1, host = '127.0.0.1' } = options
  let toxics = readPlan({ toxics: options.toxics ?? [] }).toxics
  let connections = 0
  const door = createDoor(host, (client) => {
    const server = connect({ host: upstream.host ?? '127.0.0.1', port: upstream.port, allowHalfOpen: true })
    relay(client, server, toxics, seed, (connections += 1))
  })
  const port = await door.open(options.port ?? 0)
  return {
    host,
    port,
    setToxics: (next) => {
      toxics = readPlan({ toxics: next ?? [] }).toxics
    },
    down: () => door.shut({ reset: true }),
    up: async () => {
      await door.open(port)
    },
    close: () => door.shut({ reset: true }),
  }
}

/** A listening port that can be shut and opened again. */
export type Door = {
  open(port: number): Promise<number>
  /** Stops listening; with `reset`, also ends every open connection. */
  shut(options: { readonly reset: boolean }): Promise<void>
}

export function createDoor(host: string, onConnection: (socket: Socket) => void): Door {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // Whoever uses the socket handles its errors too; this keeps one that comes between hands from ending the process.
    socket.on('error', () => socket.destroy())
    onConnection(socket)
  })
  return {
    open: (port) =>
      new Promise((resolve, reject) => {
        if (server.listening) return resolve((server.address() as AddressInfo).port)
        server.once('error', reject)
        server.listen(port, host, () => {
          server.off('error', reject)
          resolve((server.address() as AddressInfo).port)
        })
      }),
    shut: ({ reset }) =>
      new Promise((resolve) => {
        if (!server.listening) resolve()
        // Listening ends at once; the callback would wait for the open connections, which may stay open on purpose.
        else {
          server.close()
          setImmediate(resolve)
        }
        if (reset) for (const socket of sockets) socket.resetAndDestroy()
      }),
  }
}
