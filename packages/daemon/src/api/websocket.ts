/**
 * The same operations and events over a WebSocket. Responses are sent as soon as they are ready, not in request order: a slow
 * request does not delay a cancel.
 */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { classify, Fault, isFault, toProblem } from '@breakfall/faults'
import {
  DAEMON_HEADER,
  REQUEST_ID_HEADER,
  WS_PROTOCOL,
  WS_TOKEN_PREFIX,
  type WsMethod,
  wsParamsSchemas,
  wsRequestSchema,
} from '@breakfall/wire'
import { type Operation, OPERATIONS, parseRequest } from '@breakfall/wire/internal'
import { bearerToken, checkHost, checkOrigin, readOnlyFault, type TokenGrant, newId } from '@breakfall/wire/node'
import { type WebSocket, WebSocketServer } from 'ws'
import { REWOUND, type SessionReading, type Sessions, type WatchHub } from '@breakfall/engine'
import type { DaemonLimits } from '../options.ts'
import { isTaken, startOf } from './events.ts'
import { takenWithin } from './watch.ts'

const FRAME_BYTES_MAX = 1024 * 1024
const REQUESTS_MAX = 64 // per connection, until their responses are received: a client that never reads has to wait
const CLOSE = { slow: 4008, goingAway: 1001 } as const

type WebSocketOptions = {
  /** Names this daemon in every answer to an upgrade. */
  readonly name: string
  readonly sessions: Sessions
  readonly hub: WatchHub
  readonly limits: DaemonLimits
  /** Host names besides loopback and the bound address. */
  readonly hosts: readonly string[]
  readonly grantOf: (token: string | undefined) => TokenGrant | undefined
  readonly onFault: (fault: Fault) => void
}

export class WebSocketApi {
  readonly #options: WebSocketOptions
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: FRAME_BYTES_MAX,
    handleProtocols: (offered) => (offered.has(WS_PROTOCOL) ? WS_PROTOCOL : false),
  })

  constructor(options: WebSocketOptions) {
    this.#options = options
    this.#server.on('headers', (headers) => headers.push(...this.#ownHeaders(newId())))
    this.#server.on('wsClientError', (cause, socket) =>
      this.#refuse(socket, new Fault('invalid_request', { facts: { name: cause.message }, cause })),
    )
  }

  get connections(): number {
    return this.#server.clients.size
  }

  /** For the HTTP server's `upgrade`. A client that is refused gets a plain HTTP response. */
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy()) // a client that hangs up now is not a failure; an unhandled error would end the process
    try {
      checkHost(req, this.#options.hosts)
      checkOrigin(req, this.#options.hosts)
      const grant = this.#options.grantOf(tokenOf(req))
      if (grant === undefined) throw new Fault('unauthorized')
      const path = new URL(req.url ?? '/', 'http://local').pathname
      if (path !== '/v1/ws') throw new Fault('not_found', { facts: { name: 'route' } })
      this.#server.handleUpgrade(req, socket, head, (ws) => this.#serve(ws, grant))
    } catch (thrown) {
      this.#refuse(socket, isFault(thrown) ? thrown : classify(thrown, { boundary: 'client' }))
    }
  }

  close(): void {
    for (const ws of this.#server.clients) ws.close(CLOSE.goingAway, 'shutting_down')
    const clients = [...this.#server.clients]
    setTimeout(() => clients.forEach((ws) => ws.terminate()), 1_000).unref()
  }

  #refuse(socket: Duplex, fault: Fault): void {
    const requestId = newId()
    const problem = toProblem(fault.with({ requestId }))
    const json = JSON.stringify(problem)
    const head = [
      `HTTP/1.1 ${problem.status} ${problem.title}`,
      'Content-Type: application/problem+json',
      `Content-Length: ${Buffer.byteLength(json)}`,
      ...this.#ownHeaders(requestId),
      'Connection: close',
    ].join('\r\n')
    socket.end(`${head}\r\n\r\n${json}`, () => socket.destroy()) // no timeout covers this socket any more
  }

  #ownHeaders(requestId: string): readonly string[] {
    return [`${REQUEST_ID_HEADER}: ${requestId}`, `${DAEMON_HEADER}: ${this.#options.name}`]
  }

  #serve(ws: WebSocket, grant: TokenGrant): void {
    const connection = new Connection(ws, this.#options, grant)
    const heartbeat = setInterval(() => ws.ping(), this.#options.limits.heartbeatMs)
    heartbeat.unref()
    ws.on('message', (data: Buffer) => connection.take(data.toString('utf8')))
    ws.on('error', () => ws.terminate()) // a frame that is too large or not UTF-8; `close` does the rest
    ws.on('close', () => {
      clearInterval(heartbeat)
      connection.end()
    })
  }
}

// ---- details, in the order they are used above ----

function tokenOf(req: IncomingMessage): string | undefined {
  const offered = (req.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  const named = offered.find((name) => name.startsWith(WS_TOKEN_PREFIX))
  return bearerToken(req) ?? named?.slice(WS_TOKEN_PREFIX.length)
}

/** Methods for which a read token is not enough. */
const CHANGES: ReadonlySet<WsMethod> = new Set(
  Object.values<Operation>(OPERATIONS).flatMap(({ at, socket }) =>
    socket === undefined || at.startsWith('GET ') ? [] : [socket],
  ),
)

class Connection {
  readonly #ws: WebSocket
  readonly #options: WebSocketOptions
  readonly #grant: TokenGrant
  readonly #subscriptions = new Map<string, AbortController>()
  readonly #waiting: string[] = []
  #open = 0
  #endWatch: () => void = () => undefined

  constructor(ws: WebSocket, options: WebSocketOptions, grant: TokenGrant) {
    this.#grant = grant
    this.#ws = ws
    this.#options = options
  }

  take(text: string): void {
    if (this.#open < REQUESTS_MAX) return void this.#serve(text)
    this.#waiting.push(text) // frames that were already read; reading stops here
    this.#ws.pause()
  }

  end(): void {
    for (const subscription of this.#subscriptions.values()) subscription.abort()
    this.#subscriptions.clear()
    this.#endWatch()
  }

  async #serve(first: string): Promise<void> {
    this.#open += 1
    for (let text: string | undefined = first; text !== undefined; text = this.#waiting.shift()) {
      await this.#respond(text)
    }
    this.#open -= 1
    if (this.#ws.isPaused) this.#ws.resume()
  }

  async #respond(text: string): Promise<void> {
    let id: unknown = null
    try {
      const frame = parsed(text)
      if (typeof frame === 'object' && frame !== null && 'id' in frame) ({ id } = frame)
      const { method, params = {} } = parseRequest(wsRequestSchema, frame)
      const after = await this.#answer(method, params, id)
      after?.()
    } catch (thrown) {
      const fault = isFault(thrown) ? thrown : classify(thrown, { boundary: 'daemon' })
      if (fault.class === 'internal') this.#options.onFault(fault)
      await this.#send({ id, error: fault.report })
    }
  }

  /** Sends the result. The returned function, if any, runs after it. */
  async #answer(method: WsMethod, params: unknown, id: unknown): Promise<(() => void) | undefined> {
    const { sessions } = this.#options
    if (this.#grant.isReadOnly && CHANGES.has(method)) throw readOnlyFault()
    const result = (value: unknown): Promise<void> => this.#send({ id, result: value })
    switch (method) {
      case 'prompt': {
        const { sessionId, idempotencyKey, ...request } = parseRequest(wsParamsSchemas.prompt, params)
        await result(await sessions.prompt(sessionId, request, idempotencyKey))
        return undefined
      }
      case 'cancel': {
        const { turnId, reason } = parseRequest(wsParamsSchemas.cancel, params)
        await result((await sessions.cancel(turnId, { actor: 'user', reason: reason ?? null })).turn)
        return undefined
      }
      case 'resume': {
        const { turnId, ...request } = parseRequest(wsParamsSchemas.resume, params)
        await result(await sessions.resume(turnId, request))
        return undefined
      }
      case 'sessions':
        await result(await sessions.list(parseRequest(wsParamsSchemas.sessions, params)))
        return undefined
      case 'session':
        await result(await sessions.get(parseRequest(wsParamsSchemas.session, params).sessionId))
        return undefined
      case 'unsubscribe': {
        const { sessionId } = parseRequest(wsParamsSchemas.unsubscribe, params)
        this.#subscriptions.get(sessionId)?.abort()
        this.#subscriptions.delete(sessionId)
        await result({ sessionId })
        return undefined
      }
      case 'watch': {
        parseRequest(wsParamsSchemas.watch, params)
        return this.#watch(result)
      }
      case 'subscribe': {
        const { sessionId, after } = parseRequest(wsParamsSchemas.subscribe, params)
        const session = await sessions.view(sessionId)
        const start = startOf(session, after)
        await result({ sessionId, journal: session.journal, lastSeq: session.feed.head, reset: start.reset })
        return () => this.#subscribe(session, start.after, start.reset)
      }
    }
  }

  /** A second watch replaces the first. */
  async #watch(result: (value: unknown) => Promise<void>): Promise<() => void> {
    const { hub, limits } = this.#options
    const watch = await hub.watch({
      send: async (changes) => {
        const sent = Promise.all(changes.map((change) => this.#send({ watch: change })))
        await takenWithin(sent, limits.readerStallMsMax, () => this.#closeSlow())
      },
    })
    this.#endWatch()
    this.#endWatch = watch.end
    await result(watch.snapshot)
    return () => (this.#ws.readyState === this.#ws.OPEN ? watch.start() : watch.end())
  }

  #closeSlow(): void {
    this.#ws.close(CLOSE.slow, 'slow_consumer')
    setTimeout(() => this.#ws.terminate(), this.#options.limits.readerLingerMs).unref()
  }

  /** A second subscription to the same session replaces the first. */
  #subscribe(session: SessionReading, after: number, reset: string | null): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return // disconnected in the meantime: the subscription would never end
    this.#subscriptions.get(session.id)?.abort()
    const over = new AbortController()
    this.#subscriptions.set(session.id, over)
    if (reset !== null) void this.#send({ reset: { sessionId: session.id, reason: reset } })
    this.#follow(session, after, over.signal).catch((thrown: unknown) => {
      const fault = isFault(thrown) ? thrown : classify(thrown, { boundary: 'daemon' })
      this.#options.onFault(fault)
      this.#ws.close(1011, fault.category)
    })
  }

  async #follow(session: SessionReading, after: number, signal: AbortSignal): Promise<void> {
    for await (const events of session.feed.tail(after, signal)) {
      let sent: Promise<void> = Promise.resolve()
      for (const event of events) {
        if (signal.aborted) return
        sent = this.#sendRaw(event.frame)
      }
      if (!(await isTaken(sent, session.feed, this.#options.limits))) {
        return this.#closeSlow()
      }
    }
    if (session.feed.ended !== undefined && !signal.aborted) {
      if (session.feed.ended === REWOUND) void this.#send({ reset: { sessionId: session.id, reason: REWOUND } })
      void this.#send({ closed: { sessionId: session.id, reason: session.feed.ended } })
    }
  }

  #send(frame: unknown): Promise<void> {
    return this.#sendRaw(JSON.stringify(frame))
  }

  /** Resolves when the bytes were handed to the system, or the socket is gone. */
  #sendRaw(text: string | Buffer): Promise<void> {
    return new Promise((resolve) => {
      this.#ws.send(text, { binary: false }, () => resolve())
    })
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Fault('invalid_request', { facts: { name: 'the frame is not JSON' }, cause })
  }
}
