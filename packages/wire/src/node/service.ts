/**
 * An HTTP service whose routes are data: one table serves, documents itself and knows its wrong methods.
 *
 * I1  Every answer carries `x-request-id`; every failure is a problem document with that id.
 * I2  Who is not let in learns nothing: Host, Origin and token are checked before a route is looked up.
 * I3  Everything is bounded: headers, bodies, idle time, connections, and the shutdown itself.
 */
import { randomUUIDv7 } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type Boundary, classify, Fault, isFault } from '@breakfall/faults'
import type { OpenApiRoute } from '../openapi.ts'
import { invalidRequest, UNKNOWN } from '../parse.ts'
import { REQUEST_ID_HEADER } from '../names.ts'
import { checkHost, checkOrigin } from './guards.ts'
import { sendFault, sendJson } from './answers.ts'
import { type Match, matchRoute } from './match.ts'

export type Call<P = unknown> = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly method: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly requestId: string
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal
  readonly principal: P
}

/** What a handler returns; undefined where it wrote the response itself. */
export type Answer =
  | { readonly status: number; readonly json?: unknown; readonly headers?: Readonly<Record<string, string>> }
  | undefined

export type Route<P = unknown> = OpenApiRoute & {
  readonly handle: (call: Call<P>) => Promise<Answer> | Answer
}

export type ServiceOptions<P> = {
  readonly routes: readonly Route<P>[]
  /** Throws `unauthorized` (or hides what is there). Not asked for routes marked `open`. */
  readonly authorize: (req: IncomingMessage, params: Readonly<Record<string, string>>) => P
  readonly boundary: Boundary
  /** Host names besides loopback and the bound address. */
  readonly hosts?: readonly string[] | undefined
  readonly onFault?: ((fault: Fault, call: { method: string; url: string; requestId: string }) => void) | undefined
  readonly onAnswer?: ((call: { method: string; route: string; status: number; ms: number }) => void) | undefined
  readonly limits?: Partial<typeof SERVICE_LIMITS> | undefined
}

export const SERVICE_LIMITS = {
  headerBytesMax: 32 * 1024,
  headersMs: 10_000, // a client that cannot send its headers in that time is not one of ours
  idleMs: 65_000, // keep-alive: longer than the usual proxy's 60 s, so that the proxy closes first
  connectionsMax: 4_096, // a thousand subscribers, and room
}

export type Service = {
  readonly server: Server
  listen(port: number, host?: string): Promise<{ url: string; port: number; host: string }>
  /** Stops accepting, waits for answers under way, then closes what is left. */
  close(graceMs: number): Promise<void>
}

export function createService<P>(options: ServiceOptions<P>): Service {
  const limits = { ...SERVICE_LIMITS, ...options.limits }
  const sockets = new Set<Socket>()
  const server: Server = createServer(
    {
      maxHeaderSize: limits.headerBytesMax,
      requestTimeout: 0,
      headersTimeout: limits.headersMs,
      connectionsCheckingInterval: limits.headersMs / 2, // Node looks only every 30 s
      keepAliveTimeout: limits.idleMs,
      requireHostHeader: false, // Node would answer by itself, without an id and a problem document
      // Whoever offers another protocol (`curl --http2`) is served as if it had not.
      shouldUpgradeCallback: (req) => server.listenerCount('upgrade') > 0 && isWebSocket(req),
    },
    (req, res) => {
      void answer(req, res, options)
    },
  )
  server.on('checkExpectation', (req, res) => void answer(req, res, options)) // one that we do not know may be ignored
  server.maxConnections = limits.connectionsMax
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => refuseUnreadable(error, socket as Socket))
  return {
    server,
    listen: (port, host = '127.0.0.1') => listen(server, port, host),
    close: (graceMs) => close(server, sockets, graceMs),
  }
}

// ---- details, in the order they are used above ----

const isWebSocket = (req: IncomingMessage): boolean => req.headers.upgrade?.toLowerCase() === 'websocket'

async function answer<P>(req: IncomingMessage, res: ServerResponse, options: ServiceOptions<P>): Promise<void> {
  const requestId = randomUUIDv7()
  const from = performance.now()
  const gone = new AbortController()
  let route = 'none'
  res.setHeader(REQUEST_ID_HEADER, requestId) // I1
  res.on('error', () => gone.abort()) // a client that vanished while we wrote: the close below says the rest
  req.once('close', () => {
    if (!req.complete) gone.abort() // the rest of its body will not come
  })
  res.once('close', () => {
    gone.abort()
    options.onAnswer?.({ method: req.method ?? '', route, status: res.statusCode, ms: performance.now() - from })
  })
  try {
    checkHost(req, options.hosts ?? []) // I2
    checkOrigin(req, options.hosts ?? [])
    const { path, query } = parseTarget(req.url ?? '/')
    const match = matchRoute(options.routes, req.method ?? 'GET', path)
    const isOpen = match.route?.open === true
    const principal = isOpen ? (undefined as P) : options.authorize(req, match.params) // I2
    const found = foundOrThrow(match, path, query)
    route = `${found.method.toUpperCase()} ${found.path}`
    const call: Call<P> = {
      req,
      res,
      method: req.method ?? 'GET',
      params: match.params,
      query,
      requestId,
      signal: gone.signal,
      principal,
    }
    const result = await found.handle(call)
    if (result !== undefined && !res.headersSent) sendJson(res, result.status, result.json, result.headers)
  } catch (thrown) {
    const signal = isBroken(thrown) ? gone.signal : undefined
    const fault = (isFault(thrown) ? thrown : classify(thrown, { boundary: options.boundary, requestId, signal })).with(
      { requestId },
    )
    options.onFault?.(fault, { method: req.method ?? '', url: (req.url ?? '').split('?')[0] ?? '', requestId })
    if (res.headersSent) res.destroy(fault)
    else sendFault(res, fault)
  } finally {
    drain(req)
  }
}

/** What reading from, or writing to, a client that has gone away ends in. */
const isBroken = (thrown: unknown): boolean =>
  ['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes((thrown as NodeJS.ErrnoException | null)?.code ?? '')

/**
 * The path as it was written. Nothing is tidied up: to a URL parser `boxes/a/files/../../b` is `boxes/b`, so that whoever
 * puts somebody's path into a URL would call another route than the one that confines it.
 */
function parseTarget(raw: string): { readonly path: string; readonly query: URLSearchParams } {
  const target = raw.replace(/^https?:\/\/[^/?#]*/i, '')
  const at = target.indexOf('?')
  return at === -1
    ? { path: target, query: new URLSearchParams() }
    : { path: target.slice(0, at), query: new URLSearchParams(target.slice(at)) }
}

function foundOrThrow<P>(match: Match<P>, path: string, query: URLSearchParams): Route<P> {
  if (match.route === undefined) {
    if (match.methods.length === 0)
      throw new Fault('not_found', { facts: { name: 'route' }, errorRaw: `no route ${path.slice(0, 200)}` })
    throw new Fault('method_not_allowed', { facts: { limit: match.methods.join(', ') } }).with({
      reason: match.methods.join(', '),
    })
  }
  const known = match.route.query ?? {}
  const wrong = [...new Set(query.keys())].flatMap((field) => {
    const got = query.getAll(field)
    if (!Object.hasOwn(known, field)) return [{ field, expected: UNKNOWN.query, got: got[0] ?? '' }]
    return got.length > 1 ? [{ field, expected: 'one value', got: got.join(', ').slice(0, 100) }] : []
  })
  if (wrong.length > 0) throw invalidRequest(wrong)
  return match.route
}

/** Unread body bytes make the kernel answer with a reset that can destroy our response on its way: read a little, then close. */
function drain(req: IncomingMessage): void {
  if (req.complete || req.destroyed) return
  let left = 256 * 1024
  req.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) req.destroy()
  })
  req.on('error', () => req.destroy())
  req.resume()
}

function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? '408 Request Timeout'
        : '400 Bad Request'
  const fault = new Fault('invalid_request', {
    facts: { name: 'this is not a readable HTTP request' },
    errorRaw: error.code ?? error.message,
  })
  const json = JSON.stringify({
    ...fault.report,
    type: 'urn:breakfall:fault:invalid_request',
    title: 'The request is not valid',
    status: Number(status.slice(0, 3)),
    detail: fault.error,
  })
  socket.end(
    `HTTP/1.1 ${status}\r\n${REQUEST_ID_HEADER}: ${randomUUIDv7()}\r\nContent-Type: application/problem+json\r\nContent-Length: ${Buffer.byteLength(json)}\r\nConnection: close\r\n\r\n${json}`,
  )
}

function listen(server: Server, port: number, host: string): Promise<{ url: string; port: number; host: string }> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host }, () => {
      server.off('error', reject)
      const bound = server.address() as AddressInfo
      const shown = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
      resolve({ url: `http://${shown}:${bound.port}`, port: bound.port, host: bound.address })
    })
  })
}

const IDLE_SWEEP_MS = 20

async function close(server: Server, sockets: ReadonlySet<Socket>, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve())
  })
  // A kept-alive connection counts as idle only a moment after its last answer, so one sweep would leave it to the grace.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS)
  const timer = setTimeout(() => {
    for (const socket of sockets) socket.destroy()
  }, graceMs)
  await closed
  clearInterval(sweep)
  clearTimeout(timer)
}
