/**
 * An HTTP proxy that holds requests back until a test lets them through. It sends on what it has received, even if the client
 * has given up: a request that is on its way arrives, whether or not someone waits for the answer.
 */
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { type HttpServer, httpServer } from './http-server.ts'

export type HeldRequest = {
  readonly method: string
  readonly path: string
  readonly body: string
  /** Sends it on. Resolves with the status of the answer. */
  release(): Promise<number>
}

export type HoldingProxy = HttpServer & {
  /** Where requests go from now on. */
  target: string
  /** Which requests are held back. */
  holds: (request: { readonly method: string; readonly path: string; readonly body: string }) => boolean
  /** Called for each request that is held back. */
  onHeld: (held: HeldRequest) => void
}

export async function holdingProxy(target: string): Promise<HoldingProxy> {
  const server = await httpServer((req, res) => void handle(req, res))
  const proxy: HoldingProxy = Object.assign(server, {
    target,
    holds: (): boolean => false,
    onHeld: (): void => undefined,
  })
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const { method = 'GET', url: path = '/' } = req
    let body: Buffer
    try {
      body = await buffer(req)
    } catch {
      return void res.destroy() // the client left before it had sent everything
    }
    const release = (): Promise<number> => forward(proxy.target, req, body, res)
    const text = body.toString('utf8')
    if (proxy.holds({ method, path, body: text })) proxy.onHeld({ method, path, body: text, release })
    else await release()
  }
  return proxy
}

function forward(target: string, req: IncomingMessage, body: Buffer, res: ServerResponse): Promise<number> {
  const { hostname, port } = new URL(target)
  const headers = { ...req.headers, host: `${hostname}:${port}`, connection: 'close' }
  return new Promise((resolve) => {
    const onward = request({ hostname, port, method: req.method, path: req.url, headers, agent: false })
    onward.on('response', (answer) => {
      resolve(answer.statusCode ?? 500)
      if (res.destroyed) return void answer.resume() // the client is gone
      res.writeHead(answer.statusCode ?? 500, answer.headers)
      res.once('close', () => answer.destroy())
      answer.once('close', () => void (answer.complete || res.destroy())) // the server broke off
      answer.pipe(res)
    })
    onward.on('error', () => {
      res.destroy()
      resolve(0)
    })
    onward.end(body)
  })
}
