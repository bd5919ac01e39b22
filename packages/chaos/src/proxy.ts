/**
 * The fault proxy: sits in front of any HTTP server, injects the faults of a plan, and logs each one.
 *
 * I1  Nothing else fails: no pooled upstream connections, no idle timeouts.
 * I2  `close` ends everything that was started: listener, connections, upstream requests, timers.
 * I3  A request that does not match the plan's `method` and `path` is neither hit nor counted.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect as connectTcp } from 'node:net'
import { duplexPair, type Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { Fault } from '@breakfall/faults'
import { messageOf } from '@breakfall/faults/internal'
import { reset, setSocket } from './connection.ts'
import { type Forwarded, runExchange } from './exchange.ts'
import type { ChaosFault } from './fault-kinds.ts'
import { type Injection, InjectionLog, type ProxyEvent } from './injections.ts'
import { createListener, type Listener } from './listener.ts'
import { type CountedRequest, faultFor, NO_FAULTS, type Plan, type PlanInput, readPlan } from './plan.ts'
import { parsePlan } from './plan-text.ts'
import { relay } from './relay.ts'
import { RequestCounter } from './request-counter.ts'

export type FaultProxyOptions = {
  /** Origin or base URL; the proxy's `url` has the same path. */
  readonly upstream: string
  /** A plan, its JSON, or its one-line text. Without one everything passes. */
  readonly plan?: Plan | PlanInput | string | undefined
  /** Chooses the fault for a request in place of the plan. */
  readonly choose?: ((request: { method: string; path: string; body: Buffer }) => ChaosFault | undefined) | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly onEvent?: ((event: ProxyEvent) => void) | undefined
  readonly now?: (() => number) | undefined
  readonly bodyBytesMax?: number | undefined
}

export type FaultProxy = {
  readonly url: string
  readonly port: number
  /** The injections so far, oldest first. */
  readonly injected: readonly Injection[]
  /** Switches to another plan; requests already counted keep their numbers. */
  use(plan: Plan | PlanInput | string): void
  /** Injects this fault into the next counted request, before what the plan says. Several wait in line. */
  once(fault: unknown): void
  /** Faults of `once` that did not come yet. */
  readonly waiting: number
  /** Refuses connections until `up`; open ones stay open. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
}

export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = new ProxyServer(options)
  return proxy.start(options.port ?? 0)
}

// ---- details ----

const BODY_BYTES_MAX = 64 * 1024 * 1024
const ONCE_MAX = 20

class ProxyServer {
  readonly #upstream: URL
  readonly #host: string
  readonly #choose: FaultProxyOptions['choose']
  readonly #now: () => number
  readonly #bodyBytesMax: number
  readonly #counter = new RequestCounter()
  readonly #log: InjectionLog
  readonly #stale = new WeakSet<Duplex>()
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #listener: Listener
  readonly #server = createServer(
    { keepAliveTimeout: 0, headersTimeout: 0, requestTimeout: 0, maxHeaderSize: 64 * 1024 }, // I1
    (req, res) => void this.#handle(req, res),
  )
  #plan: Plan
  readonly #next: Plan[] = []
  #connections = 0
  #port = 0
  #isRefusing = false
  #refusals = 0

  constructor(options: FaultProxyOptions) {
    this.#upstream = upstreamOf(options.upstream)
    this.#host = options.host ?? '127.0.0.1'
    this.#choose = options.choose
    this.#now = options.now ?? Date.now
    this.#bodyBytesMax = options.bodyBytesMax ?? BODY_BYTES_MAX
    this.#log = new InjectionLog(options.onEvent ?? (() => {}))
    this.#plan = planOf(options.plan ?? NO_FAULTS)
    this.#server.on('upgrade', (req, socket, head) => this.#upgrade(req, socket, head))
    this.#server.on('clientError', (_error, socket) => socket.destroy())
    this.#listener = createListener(this.#host, (socket) => {
      this.#connections += 1
      if (this.#plan.toxics.length === 0) return void this.#server.emit('connection', socket)
      const [near, far] = duplexPair()
      setSocket(far, socket)
      socket.once('close', () => far.destroy())
      far.once('close', () => near.destroy())
      this.#server.emit('connection', far)
      relay(socket, near, this.#plan.toxics, this.#plan.seed, this.#connections)
    })
  }

  async start(port: number): Promise<FaultProxy> {
    this.#port = await this.#listener.open(port)
    const shownHost = this.#host.includes(':') ? `[${this.#host}]` : this.#host
    const next = this.#next
    return {
      get waiting() {
        return next.length
      },
      url: `http://${shownHost}:${this.#port}${this.#upstream.pathname.replace(/\/$/, '')}`,
      port: this.#port,
      injected: this.#log.list,
      use: (plan) => {
        this.#plan = planOf(plan)
      },
      once: (fault) => {
        this.#next.push(onceOf(fault))
        if (this.#next.length > ONCE_MAX) this.#next.shift()
      },
      down: () => this.#down(),
      up: () => this.#up(),
      close: async () => {
        for (const timer of this.#timers) clearTimeout(timer) // I2
        await this.#listener.close({ reset: true })
        this.#server.closeAllConnections()
      },
    }
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const method = req.method ?? 'GET'
    const path = req.url ?? '/'
    const gone = new AbortController()
    res.once('close', () => gone.abort())
    res.on('error', () => gone.abort())
    if (this.#isRefusing || this.#stale.has(req.socket)) return reset(req.socket)
    let counted: CountedRequest | undefined
    let fault: ChaosFault | undefined
    let isLogged = false
    const log = (outcome: Injection['outcome'], forwarded: Forwarded): void => {
      if (counted === undefined || fault === undefined || isLogged) return
      isLogged = true
      const { ordinal: request, fingerprint, attempt } = counted
      const at = new Date(this.#now()).toISOString()
      this.#log.add({ at, request, fingerprint, attempt, method, path, fault, outcome, ...forwarded })
    }
    try {
      const body = await this.#readBody(req, res)
      if (body === undefined) return
      if (this.#isCounted(method, path)) {
        counted = this.#counter.count(method, path, body)
        fault = this.#faultFor(counted, { method, path, body })
        this.#log.emit({ type: 'request', method, path, fault: fault ?? null, ...counted })
      }
      await runExchange({
        req,
        res,
        body,
        fault,
        upstream: this.#upstream,
        now: this.#now,
        gone: gone.signal,
        refuse: (ms) => this.#refuse(ms),
        makeStale: () => this.#stale.add(req.socket),
        onHit: log,
      })
      this.#log.emit({ type: 'answered', status: res.statusCode, method, path })
    } catch (error) {
      log('missed', { bytes: 0, events: 0 }) // the upstream failed, or the client disconnected, before the fault
      if (gone.signal.aborted) this.#log.emit({ type: 'client_left', method, path })
      else await this.#upstreamFailed(error, req, res)
    }
  }

  #faultFor(counted: CountedRequest, request: { method: string; path: string; body: Buffer }): ChaosFault | undefined {
    const once = this.#next.shift()
    if (once !== undefined) return faultFor(once, counted)
    return this.#choose === undefined ? faultFor(this.#plan, counted) : this.#choose(request)
  }

  /** I3 */
  #isCounted(method: string, path: string): boolean {
    const { method: wanted, path: prefix } = this.#plan
    return (wanted === null || wanted === method) && (prefix === null || path.startsWith(prefix))
  }

  async #readBody(req: IncomingMessage, res: ServerResponse): Promise<Buffer | undefined> {
    const chunks: Buffer[] = []
    let bytes = 0
    const body: AsyncIterable<Buffer> = req
    for await (const chunk of body) {
      bytes += chunk.length
      if (bytes > this.#bodyBytesMax) {
        res.writeHead(413, { connection: 'close' }).end(`the fault proxy accepts at most ${this.#bodyBytesMax} bytes\n`)
        return undefined
      }
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  }

  /** A failure of the upstream is reported as such, so it cannot be mistaken for an injected one. */
  async #upstreamFailed(error: unknown, req: IncomingMessage, res: ServerResponse): Promise<void> {
    this.#log.emit({ type: 'upstream_failed', method: req.method ?? '', path: req.url ?? '', error })
    if (res.headersSent) return reset(req.socket)
    const message = `the fault proxy cannot reach its upstream: ${messageOf(error)}`
    const headers = { 'content-type': 'application/json', 'x-breakfall-chaos': 'upstream_failed' }
    res
      .writeHead(502, headers)
      .end(JSON.stringify({ error: { message, type: 'upstream_failed', param: null, code: null } }))
  }

  /** Upgraded connections (WebSocket) pass as bytes; only toxics apply to them. */
  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { hostname, port, protocol, host } = this.#upstream
    const isTls = protocol === 'https:'
    const target = { host: hostname, port: Number(port) || (isTls ? 443 : 80) }
    const server = isTls ? connectTls({ ...target, servername: hostname }) : connectTcp(target)
    const lines = [`${req.method} ${req.url} HTTP/1.1`]
    for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
      const name = req.rawHeaders[i] ?? ''
      lines.push(`${name}: ${name.toLowerCase() === 'host' ? host : req.rawHeaders[i + 1]}`)
    }
    server.write(`${lines.join('\r\n')}\r\n\r\n`)
    server.write(head)
    const end = (): void => {
      socket.destroy()
      server.destroy()
    }
    for (const side of [socket, server]) side.on('error', end).on('close', end)
    socket.pipe(server).pipe(socket)
  }

  async #refuse(ms: number): Promise<void> {
    this.#refusals += 1
    await this.#down()
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#refusals -= 1
      if (this.#refusals > 0) return // refusals overlap: the last one ends them
      // Another program may have taken the port meanwhile; connections then stay refused.
      this.#up().catch((error: unknown) => this.#log.emit({ type: 'upstream_failed', method: '', path: '', error }))
    }, ms)
    this.#timers.add(timer)
  }

  async #down(): Promise<void> {
    this.#isRefusing = true
    await this.#listener.close({ reset: false })
    this.#server.closeIdleConnections()
    this.#log.emit({ type: 'refusing' })
  }

  async #up(): Promise<void> {
    await this.#listener.open(this.#port)
    this.#isRefusing = false
    this.#log.emit({ type: 'listening' })
  }
}

/** As a plan that hits whatever comes: the plan's reader checks the fault and fills in its settings. */
function onceOf(fault: unknown): Plan {
  return typeof fault === 'string' ? parsePlan(`rate=1,faults=${fault}`) : readPlan({ rate: 1, faults: [fault] })
}

function upstreamOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  const error = `The upstream must be an http or https URL, got ${JSON.stringify(text)}`
  const errors = [{ field: 'upstream', expected: 'an http or https URL', got: JSON.stringify(text) }]
  throw new Fault('invalid_request', { error, errorRaw: error, errors })
}

function planOf(plan: Plan | PlanInput | string): Plan {
  return typeof plan === 'string' ? parsePlan(plan) : readPlan(plan)
}
