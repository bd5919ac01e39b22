/**
 * The connections of a box to the names that it may reach. An address of 127.64.0.0/10 in the box stands for one name.
 *
 * I1  TLS: the name that the client asks for is the name of the address, or the connection is cut before anything is dialled.
 * I2  HTTP: the Host of every request is that name, or the request is refused. Requests are parsed, not copied blindly.
 * I3  Other ports carry no name to check, but a connection still reaches only the name of its address.
 * I4  A client that has said everything (it closes its direction) still gets its answer.
 * I5  One connection cannot harm another: each has its own errors, and there are at most `CONNECTIONS_MAX` at once.
 */
import { createServer, type IncomingMessage, request as httpRequest, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { readHello } from './client-hello.ts'
import type { Denial } from './denials.ts'
import { dial, type Internet } from './dial.ts'
import { cleanName, findAllowed, type Pattern } from './patterns.ts'
import { splice } from './splice.ts'

export type Names = {
  readonly patterns: readonly Pattern[]
  /** The name that an address of the box stands for. */
  readonly nameOf: (address: string) => string | undefined
  readonly onDenied: (denial: Denial) => void
}

const CONNECTIONS_MAX = 256
const FIRST_BYTES_MS = 10_000
const HELLO_BYTES_MAX = 64 * 1024

export class Connections {
  readonly #names: Names
  readonly #internet: Internet
  readonly #open = new Set<Socket>()
  readonly #http: Server
  readonly #targets = new WeakMap<Socket, Target>()

  constructor(names: Names, internet: Internet) {
    this.#names = names
    this.#internet = internet
    this.#http = createServer({
      headersTimeout: FIRST_BYTES_MS,
      requestTimeout: 0,
      keepAliveTimeout: 60_000,
      shouldUpgradeCallback: isWebSocket, // HTTP/2 would bring requests that nobody checks (I2)
    })
    Object.assign(this.#http, { httpAllowHalfOpen: true }) // I4; not in Node's documentation
    this.#http.on('request', (req, res) => void this.#forward(req, res))
    this.#http.on(
      'upgrade',
      (req: IncomingMessage, socket: Socket, head: Buffer) => void this.#upgrade(req, socket, head),
    )
    this.#http.on('connect', (_req, socket: Socket) => socket.destroy())
    this.#http.on('clientError', (_error, socket) => socket.destroy())
  }

  take(socket: Socket, port: number): void {
    socket.on('error', () => socket.destroy()) // I5
    socket.allowHalfOpen = true // I4
    if (this.#open.size >= CONNECTIONS_MAX) {
      socket.destroy()
      return
    }
    this.#open.add(socket)
    socket.once('close', () => this.#open.delete(socket))
    const target = this.#targetOf(socket, port)
    if (target === undefined) socket.destroy()
    else if (port === 443) this.#checkHello(socket, target)
    else if (port === 80) {
      this.#targets.set(socket, target)
      this.#http.emit('connection', socket)
    } else void this.#splice(socket, target, Buffer.alloc(0))
  }

  close(): void {
    for (const socket of this.#open) socket.destroy()
    this.#http.closeAllConnections()
  }

  // ---- details, in the order they are used above ----

  #targetOf(socket: Socket, port: number): Target | undefined {
    const address = (socket.localAddress ?? '').replace(/^::ffff:/, '')
    const name = this.#names.nameOf(address)
    if (name === undefined) {
      this.#names.onDenied({ name: address, port, because: 'not_allowed' })
      return undefined
    }
    const pattern = findAllowed(this.#names.patterns, name, port)
    if (pattern === undefined) this.#names.onDenied({ name, port, because: 'not_allowed' })
    return pattern && { name, port, mayBePrivate: pattern.isPrivate }
  }

  /** I1 */
  #checkHello(socket: Socket, target: Target): void {
    let seen = Buffer.alloc(0)
    const { name, port } = target
    const giveUp = (): void => void socket.destroy()
    socket.setTimeout(FIRST_BYTES_MS, giveUp)
    socket.once('end', giveUp)
    const readHelloFrom = (bytes: Buffer): void => {
      seen = Buffer.concat([seen, bytes])
      const hello = readHello(seen)
      if (hello.kind === 'partial' && seen.length < HELLO_BYTES_MAX) return
      socket.off('data', readHelloFrom)
      socket.off('end', giveUp)
      socket.pause()
      socket.setTimeout(0, giveUp)
      if (hello.kind === 'hello' && hello.name !== undefined && cleanName(hello.name) === name) {
        void this.#splice(socket, target, seen)
        return
      }
      const asked = hello.kind === 'hello' ? hello.name : undefined
      this.#names.onDenied({ name: asked ?? name, port, because: 'other_name' })
      socket.destroy()
    }
    socket.on('data', readHelloFrom)
  }

  async #splice(socket: Socket, target: Target, first: Buffer): Promise<void> {
    const upstream = await this.#dial(target)
    if (upstream === undefined || socket.destroyed) {
      upstream?.destroy()
      socket.destroy()
      return
    }
    if (first.length > 0) upstream.write(first)
    splice(socket, upstream)
  }

  async #dial({ name, port, mayBePrivate }: Target): Promise<Socket | undefined> {
    const dialled = await dial(this.#internet, name, port, mayBePrivate)
    if ('socket' in dialled) return dialled.socket
    if ('refused' in dialled) this.#names.onDenied({ name, port, because: dialled.refused })
    return undefined
  }

  /** I2. Undefined if the request is refused, and answered. */
  #admit(req: IncomingMessage): Target | undefined {
    const target = this.#targets.get(req.socket)
    if (target === undefined) return undefined
    const other = hostsOf(req).find((host) => cleanName(host.replace(/:\d+$/, '')) !== target.name)
    const isPath = req.url?.startsWith('/') === true || req.url === '*'
    if (other === undefined && isPath && hostsOf(req).length > 0) return target
    this.#names.onDenied({ name: other ?? target.name, port: target.port, because: 'other_name' })
    return undefined
  }

  async #forward(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const target = this.#admit(req)
    if (target === undefined) {
      res
        .writeHead(403, { 'content-type': 'text/plain', connection: 'close' })
        .end('not allowed by the policy of this box\n')
      return
    }
    const socket = await this.#dial(target)
    if (socket === undefined || res.destroyed) {
      socket?.destroy()
      if (!res.destroyed) res.writeHead(502, { 'content-type': 'text/plain' }).end(`cannot reach ${target.name}\n`)
      return
    }
    const upstream = httpRequest({
      createConnection: () => socket,
      method: req.method,
      path: req.url,
      headers: withoutHops(req.rawHeaders),
      setHost: false,
    })
    upstream.on('error', () => res.destroy())
    upstream.once('upgrade', (_answer, left: Socket) => {
      left.destroy() // it was not asked to leave HTTP
      res.destroy()
    })
    upstream.once('response', (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.statusMessage, withoutHops(answer.rawHeaders))
      pipeline(answer, res, () => socket.destroy())
    })
    pipeline(req, upstream, (error) => {
      if (error) socket.destroy()
    })
  }

  /** Only when the server has agreed is the connection no longer HTTP: until then, every request is checked. I2 */
  async #upgrade(req: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
    client.on('error', () => client.destroy())
    const target = isWebSocket(req) ? this.#admit(req) : undefined
    const socket = target === undefined ? undefined : await this.#dial(target)
    if (socket === undefined || client.destroyed) {
      socket?.destroy()
      client.destroy()
      return
    }
    const asking = httpRequest({
      createConnection: () => socket,
      method: req.method,
      path: req.url,
      headers: req.rawHeaders,
      setHost: false,
    })
    asking.on('error', () => client.destroy())
    asking.once('upgrade', (answer, upstream: Socket, early: Buffer) => {
      client.write(headOf(answer, linesOf(answer.rawHeaders)))
      if (early.length > 0) client.write(early)
      if (head.length > 0) upstream.write(head)
      splice(client, upstream)
    })
    asking.once('response', (answer) => {
      const kept = withoutHops(answer.rawHeaders).filter(
        (_, i, all) => !/^transfer-encoding$/i.test(all[i - (i % 2)] ?? ''),
      )
      client.write(headOf(answer, [...linesOf(kept), 'connection: close']))
      pipeline(answer, client, () => socket.destroy())
    })
    asking.end()
  }
}

const isWebSocket = ({ headers }: IncomingMessage): boolean => headers.upgrade?.toLowerCase() === 'websocket'

const headOf = ({ statusCode, statusMessage }: IncomingMessage, lines: readonly string[]): string =>
  [`HTTP/1.1 ${statusCode} ${statusMessage}`, ...lines, '', ''].join('\r\n')

type Target = { readonly name: string; readonly port: number; readonly mayBePrivate: boolean }

function linesOf(raw: readonly string[]): readonly string[] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${raw[i + 1] ?? ''}`] : []))
}

/** Every one: a server might read another than we do. */
const hostsOf = ({ rawHeaders }: IncomingMessage): readonly string[] =>
  rawHeaders.flatMap((name, i) => (i % 2 === 0 && name.toLowerCase() === 'host' ? [rawHeaders[i + 1] ?? ''] : []))

const HOPS: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'proxy-connection', 'upgrade'])

const withoutHops = (raw: readonly string[]): string[] =>
  raw.filter((_, i) => !HOPS.has((raw[i - (i % 2)] ?? '').toLowerCase()))
