/** A TCP listener that can stop and resume listening on the same port, to play a server that is down. */
import { createServer, type Socket } from 'node:net'
import { portOf } from './port.ts'

export type Listener = {
  open(port: number): Promise<number>
  /** Stops listening; with `reset`, also resets every open connection. */
  close(options: { readonly reset: boolean }): Promise<void>
}

export function createListener(host: string, onConnection: (socket: Socket) => void): Listener {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // The user of the socket handles errors too; this listener keeps an early one from ending the process.
    socket.on('error', () => socket.destroy())
    onConnection(socket)
  })
  return {
    open: (port) =>
      new Promise((resolve, reject) => {
        if (server.listening) return resolve(portOf(server))
        server.once('error', reject)
        server.listen(port, host, () => {
          server.off('error', reject)
          resolve(portOf(server))
        })
      }),
    close: ({ reset }) =>
      new Promise((resolve) => {
        if (!server.listening) resolve()
        // Listening ends at once. The callback would wait for open connections, which may stay open on purpose.
        else {
          server.close()
          setImmediate(resolve)
        }
        if (reset) for (const socket of sockets) socket.resetAndDestroy()
      }),
  }
}
