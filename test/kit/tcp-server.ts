/** A TCP server on loopback that remembers its sockets and destroys them when it closes. */
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'

export type TcpServer = AsyncDisposable & {
  readonly port: number
  /** Sockets that are open now. */
  readonly sockets: ReadonlySet<Socket>
  /** Connections accepted so far. */
  readonly connections: number
  /** Whether it still accepts connections. */
  readonly isListening: boolean
  close(): Promise<void>
}

export async function startTcpServer(onConnection: (socket: Socket) => void, port = 0): Promise<TcpServer> {
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    connections++
    sockets.add(socket)
    socket.on('error', () => socket.destroy()) // the peer reset the connection; `close` follows
    socket.on('end', () => socket.end())
    socket.on('close', () => sockets.delete(socket))
    onConnection(socket)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const bound = portOf(server)
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }
  return {
    port: bound,
    sockets,
    get connections() {
      return connections
    },
    get isListening() {
      return server.listening
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A port that refuses connections: bound once, so no other process has it, and closed again. */
export async function closedPort(): Promise<number> {
  const server = await startTcpServer((socket) => socket.destroy())
  await server.close()
  return server.port
}

export function portOf(server: Pick<Server, 'address'>): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on a TCP port')
  return address.port
}
