/** The least that a proxy in Node can do: it passes requests and answers on, and looks at nothing. */
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

const { hostname, port } = new URL(process.argv[2] ?? '')
const agent = new Agent({ keepAlive: true })
const server = createServer((req, res) => {
  const { method, headers, url: path } = req
  const upstream = request({ hostname, port, path, method, headers, agent }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(res)
  })
  upstream.on('error', () => res.destroy())
  res.on('close', () => upstream.destroy())
  req.pipe(upstream)
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` })
