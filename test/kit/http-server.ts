/** A plain, well-behaved HTTP server on loopback. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { portOf } from './tcp-server.ts'

export type HttpServer = AsyncDisposable & {
  readonly port: number
  readonly url: string
  /** Requests received so far. */
  readonly count: number
  close(): Promise<void>
}

export async function httpServer(answer: RequestListener, port = 0): Promise<HttpServer> {
  let count = 0
  const server = createServer((req, res) => {
    count++
    answer(req, res)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const bound = portOf(server)
  const close = async (): Promise<void> => {
    server.closeAllConnections()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }
  return {
    port: bound,
    url: `http://127.0.0.1:${bound}`,
    get count() {
      return count
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}
