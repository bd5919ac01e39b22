/**
 * The HTTP server of the services, bounded. The runner and the daemon put a route table on top (`service.ts`), the gateway a plain
 * handler. Servers that speak for others (the fault proxy, the rehearsal model, a box's names and ports) are bounded elsewhere.
 *
 * I1  Everything has a limit: header size, header time, request time, idle time, connections, and the shutdown itself.
 * I2  A request that Node cannot parse still gets an answer in the service's own format, with a request id.
 * I3  Methods that no service has (TRACE, CONNECT, PURGE, …) are refused before any handler.
 * I4  A connection on which nothing was ever sent is idle, not slow, and gets no answer. Node's fetch opens one whenever a stream is
 *     aborted, and would take an early 408 for the answer to its next request.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Fault, PROBLEM_CONTENT_TYPE, toProblem } from '@breakfall/faults'
import { REQUEST_ID_HEADER } from '../names.ts'
import { newId } from './new-id.ts'

export type HttpServerOptions = {
  /** Answers the request. It handles its own errors; anything it throws closes the connection. */
  readonly handle: (req: IncomingMessage, res: ServerResponse) => Promise<void>
  /** Takes over WebSocket upgrades. Without it, a request to upgrade is answered as a plain request. */
  readonly upgrade?: ((req: IncomingMessage, socket: Duplex, head: Buffer) => void) | undefined
  /** Whether it takes this one over. Default: all of them. */
  readonly upgrades?: ((req: IncomingMessage) => boolean) | undefined
  /** How this service words a refusal. Default: a problem document. */
  readonly refusal?: ((fault: Fault, status: number, requestId: string) => Refusal) | undefined
  /** Sent with that refusal, too; the handler sends its own. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly limits?: Partial<HttpServerLimits> | undefined
}

export type Refusal = { readonly headers: Readonly<Record<string, string>>; readonly body: string }

export const HTTP_SERVER_LIMITS = {
  headerBytesMax: 32 * 1024,
  headersMs: 10_000, // our own clients send their headers at once
  requestMs: 0, // 0: each handler bounds its own body
  idleMs: 65_000, // keep-alive: longer than the usual proxy's 60 s: the proxy closes first
  connectionsMax: 4_096, // a thousand subscribers, and headroom
  drainBytesMax: 256 * 1024, // of a body that no handler read
}
export type HttpServerLimits = { readonly [Limit in keyof typeof HTTP_SERVER_LIMITS]: number }

export type CloseOptions = {
  /** Time for requests under way to finish. */
  readonly graceMs: number
  /** Called when the grace is over, to end what is left in an orderly way. */
  readonly onGraceOver?: (() => void) | undefined
  /** Time after `onGraceOver` until the remaining connections are cut. */
  readonly lingerMs?: number | undefined
}

export type Bound = {
  /** The bound address. A wildcard is an address to listen on, and none to call. */
  readonly url: string
  /** Where a program on this machine calls it. */
  readonly localUrl: string
  readonly port: number
  readonly host: string
}

export type HttpServer = {
  listen(port: number, host?: string): Promise<Bound>
  /** Stops accepting, waits for requests under way, then cuts the remaining connections. */
  close(options: CloseOptions): Promise<void>
}

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const limits: HttpServerLimits = { ...HTTP_SERVER_LIMITS, ...options.limits }
  const { handle, upgrade, upgrades = () => true, refusal = problemRefusal, headers = {} } = options
  const worded: typeof refusal = (...given) => {
    const { headers: own, body } = refusal(...given)
    return { headers: { ...headers, ...own }, body }
  }
  const sockets = new Set<Socket>()
  const checkMs = [limits.headersMs / 2, limits.requestMs].filter((ms) => ms > 0)
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    if (METHODS.includes(req.method ?? '')) return handled(req, res)
    const requestId = newId()
    const { headers: own, body } = worded(methodFault(req.method), 405, requestId)
    res
      .writeHead(405, { [REQUEST_ID_HEADER]: requestId, ...own, allow: METHODS.join(', '), connection: 'close' })
      .end(body)
    drain(req, limits.drainBytesMax)
  }
  const handled = (req: IncomingMessage, res: ServerResponse): void => {
    void handle(req, res)
      .catch((thrown: unknown) => res.destroy(thrown instanceof Error ? thrown : undefined))
      .finally(() => drain(req, limits.drainBytesMax))
  }
  const server = createServer(
    {
      highWaterMark: READ_BYTES,
      maxHeaderSize: limits.headerBytesMax,
      requestTimeout: limits.requestMs,
      headersTimeout: limits.headersMs,
      connectionsCheckingInterval: Math.min(...checkMs), // Node's default is 30 s
      keepAliveTimeout: limits.idleMs,
      requireHostHeader: false, // Node's own refusal has neither an id nor our format (I2)
      // A client that offers another protocol (`curl --http2`) is served over HTTP/1.1.
      shouldUpgradeCallback: (req) =>
        upgrade !== undefined && req.headers.upgrade?.toLowerCase() === 'websocket' && upgrades(req),
    },
    serve,
  )
  server.maxConnections = limits.connectionsMax
  server.on('checkExpectation', serve) // an expectation we do not know is ignored
  if (upgrade !== undefined) server.on('upgrade', upgrade)
  server.on('connect', (req, socket) => refuseRaw(methodFault(req.method), 405, 'Method Not Allowed', socket, worded))
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (isSilent(error, socket)) closeIdle(socket, limits.idleMs)
    else refuseUnreadable(error, socket, worded)
  })
  return {
    listen: (port, host = '127.0.0.1') => listen(server, port, host),
    close: (closing) => close(server, sockets, closing),
  }
}

// ---- details, in the order they are used above ----

/** Of a body, before its reader has its turn. One read of a socket can bring 11,000 chunks of a byte, which take 10 ms, so it is one read. */
const READ_BYTES = 8 * 1024

/** No route has another one, and passing an unknown one on would let a client do what no one thought of. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const methodFault = (method: string | undefined): Fault =>
  new Fault('method_not_allowed', { facts: { limit: METHODS.join(', ') }, errorRaw: `method ${method}` })

function problemRefusal(fault: Fault, status: number, requestId: string): Refusal {
  return {
    headers: { 'content-type': PROBLEM_CONTENT_TYPE },
    body: JSON.stringify({ ...toProblem(fault.with({ requestId })), status }),
  }
}

/** Unread body bytes make the kernel reset the connection, which can destroy our response in flight: read some, then close. */
function drain(req: IncomingMessage, bytesMax: number): void {
  if (req.complete || req.destroyed) return
  let left = bytesMax
  req.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) req.destroy()
  })
  req.on('error', () => req.destroy())
  req.resume()
}

/** I4: idle, not slow. */
const isSilent = ({ code }: NodeJS.ErrnoException, socket: Duplex): boolean =>
  code === 'ERR_HTTP_REQUEST_TIMEOUT' && 'bytesRead' in socket && socket.bytesRead === 0

/** Unless a request arrives first: from then on, Node's own limits apply again. */
function closeIdle(socket: Duplex, idleMs: number): void {
  const timer = setTimeout(() => {
    if ('bytesRead' in socket && socket.bytesRead === 0) socket.destroy()
  }, idleMs).unref()
  socket.once('close', () => clearTimeout(timer))
}

const UNREADABLE: Readonly<Record<string, readonly [status: number, title: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
}

function refuseUnreadable(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  refusal: NonNullable<HttpServerOptions['refusal']>,
): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, title] = UNREADABLE[error.code ?? ''] ?? [400, 'Bad Request']
  const fault = new Fault('invalid_request', {
    facts: { name: 'this is not a readable HTTP request' },
    errorRaw: error.code ?? error.message,
  })
  refuseRaw(fault, status, title, socket, refusal)
}

/** For connections that have no response to write to. */
function refuseRaw(
  fault: Fault,
  status: number,
  title: string,
  socket: Duplex,
  refusal: NonNullable<HttpServerOptions['refusal']>,
): void {
  const requestId = newId()
  const { headers, body } = refusal(fault, status, requestId)
  const lines = Object.entries({
    [REQUEST_ID_HEADER]: requestId,
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.on('error', () => socket.destroy()) // the client is gone
  socket.end(`HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`)
}

const LOOPBACK_OF: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }

function listen(server: Server, port: number, host: string): Promise<Bound> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host }, () => {
      server.off('error', reject)
      const bound = server.address()
      if (bound === null || typeof bound === 'string') return reject(new Error('the server has no TCP address'))
      const shown = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
      return resolve({
        url: `http://${shown}:${bound.port}`,
        localUrl: `http://${LOOPBACK_OF[bound.address] ?? shown}:${bound.port}`,
        port: bound.port,
        host: bound.address,
      })
    })
  })
}

const IDLE_SWEEP_MS = 20

async function close(server: Server, sockets: ReadonlySet<Socket>, options: CloseOptions): Promise<void> {
  const { graceMs, onGraceOver, lingerMs = 0 } = options
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve())
  })
  // A kept-alive connection counts as idle only a moment after its last answer, so a single sweep would miss it.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS)
  const ending = setTimeout(() => onGraceOver?.(), graceMs)
  const cutting = setTimeout(() => {
    for (const socket of sockets) socket.destroy()
  }, graceMs + lingerMs)
  server.closeIdleConnections()
  await closed
  clearInterval(sweep)
  clearTimeout(ending)
  clearTimeout(cutting)
}
