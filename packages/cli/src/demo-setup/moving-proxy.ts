/** Puts a runner behind a proxy that can move to another port, and serves the proxy's current address. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { startTcpProxy as StartTcpProxy } from '@breakfall/chaos'

export type MovingProxy = {
  readonly url: string
  /** Answers with the current address. */
  readonly resolveUrl: string
  move(): Promise<void>
  close(): Promise<void>
}

export async function startMovingProxy(
  port: string | number,
  startTcpProxy: typeof StartTcpProxy,
): Promise<MovingProxy> {
  const upstream = { port: Number(port) }
  let proxy = await startTcpProxy({ upstream })
  const address = (): string => `http://127.0.0.1:${proxy.port}`
  const resolver = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ url: address() }))
  })
  resolver.listen(0, '127.0.0.1')
  await once(resolver, 'listening')
  return {
    url: address(),
    resolveUrl: `http://127.0.0.1:${portOf(resolver.address())}/`,
    move: async () => {
      const old = proxy
      proxy = await startTcpProxy({ upstream })
      await old.close()
    },
    close: async () => {
      resolver.close()
      resolver.closeAllConnections()
      await proxy.close()
    },
  }
}

// ---- details ----

const portOf = (address: ReturnType<Server['address']>): number =>
  typeof address === 'object' && address !== null ? address.port : 0
