/**
 * An HTTP service whose routes are data: one table serves, documents itself and knows which methods are wrong.
 *
 * I1  Every response carries `x-request-id`; every failure is a problem document with that id.
 * I2  A caller that is not let in learns nothing: Host, Origin and token are checked before the response depends on whether a route
 *     exists. Only routes marked `open` need no token.
 * I3  What all requests hold together is bounded. A request with a body takes what Node buffers of it before anyone reads it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Boundary, classify, Fault, isFault } from '@breakfall/faults'
import { REQUEST_ID_HEADER } from '../names.ts'
import type { OpenApiRoute } from '../openapi.ts'
import { invalidRequest, UNKNOWN } from '../parse.ts'
import { sendFault, sendJson } from './answers.ts'
import { checkHost, checkOrigin } from './guards.ts'
import { createHttpServer, type HttpServer, type HttpServerOptions } from './http-server.ts'
import { type Match, matchRoute } from './match.ts'
import { MemoryBudget, type MemoryShare, taking } from './memory-budget.ts'
import { newId } from './new-id.ts'

/** One request, as a route's handler sees it. */
export type RequestContext = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly method: string
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly requestId: string
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal
  /** What this request holds. Closed when it is answered. */
  readonly memory: MemoryShare
}

/** What a handler returns; undefined if it wrote the response itself. */
export type RouteResult =
  | { readonly status: number; readonly json?: unknown; readonly headers?: Readonly<Record<string, string>> }
  | undefined

export type Route = OpenApiRoute & {
  readonly handle: (context: RequestContext) => Promise<RouteResult> | RouteResult
}

export type ServiceOptions = Pick<HttpServerOptions, 'upgrade' | 'limits'> & {
  readonly routes: readonly Route[]
  /** Of all request bodies together. */
  readonly memoryBytesMax?: number | undefined
  /** Throws `unauthorized` (or hides what exists). Not called for routes marked `open`. */
  readonly authorize: (req: IncomingMessage, params: Readonly<Record<string, string>>) => void
  readonly boundary: Boundary
  /** Host names besides loopback and the bound address. */
  readonly hosts?: readonly string[] | undefined
  /** On every response. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly onFault?: ((fault: Fault, request: { method: string; url: string; requestId: string }) => void) | undefined
  readonly onAnswer?: ((request: { method: string; route: string; status: number; ms: number }) => void) | undefined
}

export function createService(options: ServiceOptions): HttpServer {
  const { upgrade, limits, headers, memoryBytesMax = MEMORY_BYTES_MAX } = options
  const budget = new MemoryBudget(memoryBytesMax)
  const handle = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const memory = budget.open()
    try {
      await answer(req, res, options, memory)
    } finally {
      memory.close()
    }
  }
  return createHttpServer({ handle, upgrade, limits, headers })
}

// ---- details, in the order they are used above ----

const MEMORY_BYTES_MAX = 64 * 1024 * 1024 // twenty of the largest JSON bodies at once, or five hundred uploads
const BUFFERED_BYTES = 128 * 1024 // measured: of a body that nobody reads, Node holds this much

/** What Node buffers of the body. */
function bufferedBytes({ headers }: IncomingMessage): number {
  const announced = headers['transfer-encoding'] === undefined ? Number(headers['content-length'] ?? 0) : Infinity
  return Math.min(announced, BUFFERED_BYTES)
}

async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  options: ServiceOptions,
  memory: MemoryShare,
): Promise<void> {
  const requestId = newId()
  const from = performance.now()
  const gone = new AbortController()
  let route = 'none'
  res.setHeader(REQUEST_ID_HEADER, requestId) // I1
  for (const [name, value] of Object.entries(options.headers ?? {})) res.setHeader(name, value)
  res.on('error', () => gone.abort()) // the client vanished while we wrote; the close below reports it
  req.once('close', () => {
    if (!req.complete) gone.abort() // the rest of its body will not come
  })
  res.once('close', () => {
    gone.abort()
    options.onAnswer?.({ method: req.method ?? '', route, status: res.statusCode, ms: performance.now() - from })
  })
  try {
    checkHost(req, options.hosts ?? []) // I2: before the response depends on the route
    checkOrigin(req, options.hosts ?? [], { allowLinks: true }) // to the console; the API needs a token, which a link cannot send
    const { path, query } = parseTarget(req.url ?? '/')
    const match = matchRoute(options.routes, req.method ?? 'GET', path)
    if (match.route?.open !== true) options.authorize(req, match.params) // I2: before the response depends on the route
    const found = foundOrThrow(match, path, query)
    route = `${found.method.toUpperCase()} ${found.path}`
    taking(memory)(bufferedBytes(req)) // I3: what Node buffers counts
    const { method = 'GET' } = req
    const { params } = match
    const result = await found.handle({ req, res, method, params, query, requestId, signal: gone.signal, memory })
    if (result !== undefined && !res.headersSent) sendJson(res, result.status, result.json, result.headers)
  } catch (thrown) {
    const signal = isBroken(thrown) ? gone.signal : undefined
    const fault = (isFault(thrown) ? thrown : classify(thrown, { boundary: options.boundary, requestId, signal })).with(
      { requestId },
    )
    options.onFault?.(fault, { method: req.method ?? '', url: (req.url ?? '').split('?')[0] ?? '', requestId })
    if (res.headersSent) res.destroy(fault)
    else sendFault(res, fault)
  }
}

const BROKEN_CONNECTION = new Set(['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'])

/** Whether it is the error of reading from, or writing to, a client that is gone. */
const isBroken = (thrown: unknown): boolean =>
  thrown instanceof Error && 'code' in thrown && BROKEN_CONNECTION.has(String(thrown.code))

/**
 * The path exactly as sent. A URL parser turns `boxes/a/files/../../b` into `boxes/b`: a caller that puts a user's path
 * into a URL would then reach a route that does not confine it.
 */
function parseTarget(raw: string): { readonly path: string; readonly query: URLSearchParams } {
  const target = raw.replace(/^https?:\/\/[^/?#]*/i, '')
  const at = target.indexOf('?')
  return at === -1
    ? { path: target, query: new URLSearchParams() }
    : { path: target.slice(0, at), query: new URLSearchParams(target.slice(at)) }
}

function foundOrThrow(match: Match<Route>, path: string, query: URLSearchParams): Route {
  if (match.isBroken) throw new Fault('invalid_request', { facts: { name: 'the path has a broken percent escape' } })
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
