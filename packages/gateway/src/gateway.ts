/**
 * The gateway: point an agent's base URL at it, and its streams survive. Routes requests to the healer or passes them
 * through, and counts, logs and shows what happens.
 *
 * I1  A client that leaves ends its upstream request at once.
 * I2  Bodies, concurrent requests and the shutdown are bounded; each limit has its own response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { classify, Fault, isFault } from '@breakfall/faults'
import {
  Conversations,
  errorAnswer,
  type JsonBody,
  MemoryBudget,
  type MemoryShare,
  modelInPath,
  receiveBody,
  relayAnswer,
  type RelayOutcome,
  type RelaySink,
  type RelayTarget,
  RequestRepair,
} from '@breakfall/model/internal'
import type { RepairMode } from '@breakfall/model'
import {
  bodyChunks,
  checkHost,
  checkOrigin,
  createHttpServer,
  type HttpServer,
  newId,
  sameToken,
} from '@breakfall/wire/node'
import {
  type Asked,
  type Call,
  headersOf,
  openCall,
  pathOf,
  refuse,
  refuseUpgrade,
  unreadable,
  wantsWebSocket,
} from './call.ts'
import { type AgentLoop, agentLoopIn } from './agent-loop.ts'
import { framedFor, searchFor } from './client-framing.ts'
import { monotonicMs } from './clock.ts'
import { UpstreamPool } from './health.ts'
import { HttpSink, type SinkWatching } from './http-sink.ts'
import { logAnswer, repairText } from './log.ts'
import { GatewayMetrics } from './metrics.ts'
import { type GatewayOptions, type GatewaySettings, resolveOptions, type Upstream } from './options.ts'
import { PassThrough, type Passing } from './pass-through.ts'
import { ambiguityIn, asksModel, historyApi, isLikeModelRoute, isServed, type ModelRoute, modelRoute } from './paths.ts'
import { errorMessage, requestHeaders, requestIn, SocketSink, warmUpEvents } from './responses-socket.ts'
import { type GatewaySnapshot, type GatewayWatch, Watch } from './watch.ts'
import { CLOSE, isHandshake, WebSocketConnection } from './web-socket.ts'

export type Gateway = {
  /** The base URL for clients. Ends in `/v1`. */
  readonly url: string
  readonly port: number
  readonly watch: GatewayWatch
  stats(): GatewaySnapshot
  close(): Promise<void>
}

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const running = new RunningGateway(resolveOptions(options))
  const { url, port } = await running.listen()
  return {
    url: `${url}/v1`,
    port,
    watch: running.watch,
    stats: () => running.watch.snapshot(),
    close: () => running.close(),
  }
}

// ---- details ----

/** Faults that the client may retry, unlike those that the gateway has retried already. */
const COME_BACK: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  quota_exceeded: { 'retry-after': '1', 'x-should-retry': 'true' },
  shutting_down: { 'retry-after': '1', 'x-should-retry': 'true', connection: 'close' },
}

/** Says that an answer passed through without being healed. */
const HEALED = 'x-breakfall-healed'

const ERROR_DELIVERY_MS = 1_000 // for the error that ends a stream to reach its client

class RunningGateway {
  readonly watch: Watch
  readonly #settings: GatewaySettings
  readonly #pool: UpstreamPool
  readonly #metrics: GatewayMetrics
  readonly #passThrough: PassThrough
  readonly #server: HttpServer
  /** What all requests hold together. */
  readonly #memory: MemoryBudget
  readonly #calls = new Set<Asked>()
  readonly #sockets = new Set<WebSocketConnection>()
  /** Those of them that answer now. */
  readonly #answering = new Set<WebSocketConnection>()
  /** Those that were repaired. */
  readonly #conversations: Conversations
  #isClosing = false

  constructor(settings: GatewaySettings) {
    const { upstreams, policy, now } = settings
    const { requestMs, requestsMax } = settings.limits
    this.#settings = settings
    this.#memory = new MemoryBudget(settings.limits.memoryBytesMax)
    this.#pool = new UpstreamPool(upstreams, now)
    this.#conversations = new Conversations(now)
    this.watch = new Watch(now, () => this.#pool.health())
    this.#metrics = new GatewayMetrics(
      this.#pool,
      () => [...this.#calls].filter(({ path }) => path !== '/metrics').length,
    )
    this.#passThrough = new PassThrough({
      pool: this.#pool,
      policy,
      dice: settings.dice ?? (() => 0.5),
      clientStuckMs: settings.limits.clientStuckMs,
    })
    this.#server = createHttpServer({
      handle: (req, res) => this.#answer(req, res),
      upgrade: (req, socket, head) => this.#openSocket(req, socket, head),
      upgrades: (req) => this.#takesSocket(req),
      refusal: unreadable,
      limits: {
        requestMs, // I2
        headersMs: Math.min(10_000, requestMs),
        headerBytesMax: 64 * 1024, // agents send long keys and cookies
        drainBytesMax: 1024 * 1024,
        connectionsMax: 2 * requestsMax, // as many idle ones as busy ones
      },
    })
  }

  listen(): Promise<{ url: string; port: number }> {
    return this.#server.listen(this.#settings.port, this.#settings.host)
  }

  async close(): Promise<void> {
    this.#isClosing = true
    for (const socket of this.#sockets) if (!this.#answering.has(socket)) socket.close(CLOSE.goingAway)
    await this.#server.close({
      graceMs: this.#settings.limits.closeMs,
      onGraceOver: () => {
        for (const call of this.#calls) call.stop(new Fault('shutting_down'))
      },
      lingerMs: ERROR_DELIVERY_MS,
    })
    await this.#passThrough.close()
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const call = openCall(req, res, this.#memory.open())
    this.#calls.add(call)
    try {
      if (wantsWebSocket(call)) return this.#refuseUpgrade(call)
      this.#admit(req)
      this.#checkRoom()
      await this.#route(call)
    } catch (thrown) {
      const fault = isFault(thrown) ? thrown : classify(thrown, { boundary: 'client', signal: call.signal })
      const status = refuse(call, fault, COME_BACK[fault.category])
      this.#metrics.passedThrough(status)
      this.#settings.logger?.warn(
        { requestId: call.requestId, path: call.path, status, category: fault.category, errorRaw: fault.errorRaw },
        'refused',
      )
    } finally {
      this.#calls.delete(call)
      call.memory.close()
    }
  }

  #refuseUpgrade(call: Call): void {
    const { requestId, method, path } = call
    const status = refuseUpgrade(call)
    this.#metrics.passedThrough(status)
    this.#settings.logger?.info({ requestId, method, path, status }, 'refused a WebSocket')
  }

  /** Any other upgrade is answered with 426, after which agents ask over HTTP. */
  #takesSocket(req: IncomingMessage): boolean {
    const { path } = pathOf(req)
    const isResponses = modelRoute(path)?.api === 'openai-responses' && ambiguityIn(path) === undefined
    if (!isResponses || !isHandshake(req) || this.#sockets.size >= this.#settings.limits.socketsMax) return false
    try {
      this.#admit(req)
      return true
    } catch (thrown) {
      if (isFault(thrown)) return false
      throw thrown
    }
  }

  #openSocket(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { limits, logger } = this.#settings
    const { path, search } = pathOf(req)
    let current: AbortController | undefined
    /** A client may ask again as soon as it has read the end of an answer. */
    let next: { readonly message: readonly Buffer[]; readonly memory: MemoryShare } | undefined
    let idle: NodeJS.Timeout | undefined
    const rest = (): void => {
      this.#answering.delete(connection)
      if (!this.#sockets.has(connection)) return // it is gone
      if (this.#isClosing) connection.close(CLOSE.goingAway)
      else idle = setTimeout(() => connection.close(CLOSE.goingAway), limits.socketIdleMs)
    }
    const ask = (message: readonly Buffer[], memory: MemoryShare): void => {
      clearTimeout(idle)
      const leaving = (current = new AbortController())
      this.#answering.add(connection)
      const asked = { requestId: newId(), method: 'POST', path, search, memory, signal: leaving.signal }
      const stop = (fault: Fault): void => leaving.abort(fault)
      void this.#answerSocket({ ...asked, stop }, headersOf(req), connection, message).finally(() => {
        memory.close()
        current = undefined
        const waiting = next
        next = undefined
        if (waiting === undefined) rest()
        else ask(waiting.message, waiting.memory)
      })
    }
    const connection = new WebSocketConnection(req, socket, head, {
      messageBytesMax: limits.bodyBytesMax,
      memory: () => this.#memory.open(), // I2
      onMessage: (message, memory) => {
        if (current === undefined) return ask(message, memory)
        if (next === undefined) {
          next = { message, memory }
          return
        }
        memory.close()
        connection.send(errorMessage(409, { code: 'response_in_progress', message: 'Wait for the response.' }))
      },
      onClose: () => {
        clearTimeout(idle)
        this.#sockets.delete(connection)
        next?.memory.close()
        next = undefined
        current?.abort(new Error('the client closed the connection')) // I1
      },
    })
    this.#sockets.add(connection)
    rest()
    logger?.info({ requestId: newId(), method: 'GET', path, status: 101 }, 'opened a WebSocket')
  }

  /** One message of a WebSocket. Never throws. */
  async #answerSocket(
    asked: Asked,
    headers: Readonly<Record<string, string>>,
    connection: WebSocketConnection,
    message: readonly Buffer[],
  ): Promise<void> {
    const route = modelRoute(asked.path)
    this.#calls.add(asked)
    try {
      if (this.#isClosing) throw new Fault('shutting_down')
      this.#checkRoom()
      const request = await requestIn(message, asked.memory)
      if (request.kind === 'refused')
        return void connection.send(errorMessage(400, { type: 'invalid_request_error', ...request, kind: undefined }))
      if (request.kind === 'warm-up') return warmUpEvents().forEach((event) => connection.send(event))
      const { bodyBytesMax: bytesMax } = this.#settings.limits
      const options = { headers: requestHeaders(headers), bytesMax, memory: asked.memory, look: 'fields' } as const
      const { read } = await receiveBody(request.body, options)
      if (route === undefined || read === undefined)
        throw new Fault('invalid_request', {
          facts: { name: 'the message is not a JSON object that every server reads in the same way' },
        })
      const { fault, contentSent } = await this.#heal(asked, route, read, (watching) => {
        return new SocketSink(connection, { clientStuckMs: this.#settings.limits.clientStuckMs, ...watching })
      })
      if (fault !== null && contentSent) connection.close(CLOSE.failed)
    } catch (thrown) {
      const fault = isFault(thrown) ? thrown : classify(thrown, { boundary: 'client', signal: asked.signal })
      const { status, headers: told, body } = errorAnswer('openai-responses', fault.report, undefined)
      connection.send(errorMessage(status, (JSON.parse(String(body)) as { error: unknown }).error, told))
      this.#metrics.passedThrough(status)
    } finally {
      this.#calls.delete(asked)
    }
  }

  #admit(req: IncomingMessage): void {
    const { hosts, token } = this.#settings
    checkHost(req, hosts)
    checkOrigin(req, hosts)
    const given = req.headers['x-breakfall-token']
    if (token !== undefined && !sameToken(typeof given === 'string' ? given : '', token))
      throw new Fault('unauthorized', { message: { advice: 'Send it in the header x-breakfall-token.' } })
    if (this.#isClosing) throw new Fault('shutting_down')
  }

  /** I2 */
  #checkRoom(): void {
    const { limits } = this.#settings
    if (this.#calls.size > limits.requestsMax)
      throw new Fault('quota_exceeded', {
        facts: { limit: `${limits.requestsMax} requests at once` },
        message: { advice: 'Retry when another request has ended, or raise limits.requestsMax.' },
      })
  }

  async #route(call: Call): Promise<void> {
    if (call.path === '/metrics' && call.method === 'GET') {
      const { registry } = this.#metrics
      call.res.writeHead(200, { 'content-type': registry.contentType }).end(await registry.metrics())
      return
    }
    if (!isServed(call.path))
      throw new Fault('not_found', {
        message: {
          happened: 'The gateway knows no provider with this path.',
          advice: "Set your agent's base URL to this address with /v1 at the end.",
        },
        errorRaw: `no route ${call.path.slice(0, 200)}`,
      })
    const ambiguity = ambiguityIn(call.path)
    if (ambiguity !== undefined)
      throw new Fault('invalid_request', {
        facts: { name: `the path has ${ambiguity}` },
        errorRaw: `path ${call.path.slice(0, 200)}`,
      })
    const { bodyBytesMax, bodySilenceMs } = this.#settings.limits
    const isPost = call.method === 'POST'
    const route = isPost ? modelRoute(call.path) : undefined
    const history = isPost ? historyApi(call.path) : undefined
    const isEncoded = call.req.headers['content-encoding'] !== undefined
    const { sent, model, read } = await receiveBody(bodyChunks(call.req, bodySilenceMs), {
      headers: headersOf(call.req),
      bytesMax: bodyBytesMax,
      memory: call.memory, // I2
      look: route !== undefined || (history !== undefined && isEncoded) ? 'fields' : isPost ? 'model' : 'nothing',
    })
    if (read === undefined && isPost && isLikeModelRoute(call.path) && this.#settings.upstreams.some(hasModel))
      throw new Fault('invalid_request', {
        facts: { name: 'the model of this request cannot be replaced, as an upstream here demands' },
        errorRaw: `not a JSON object that every server reads in the same way, or an unusual path: ${call.path.slice(0, 200)}`,
      })
    this.#checkSignature(call)
    // A body that is not JSON is left for the upstream to refuse.
    if (route !== undefined && read !== undefined && isKnown(route, read)) {
      const { clientStuckMs } = this.#settings.limits
      await this.#heal(call, route, read, (watching) => {
        const sink = new HttpSink(call.res, { requestId: call.requestId, clientStuckMs, ...watching })
        return framedFor(route, call.search, sink)
      })
      return
    }
    const isUnhealed = isPost && (model !== undefined || asksModel(call.path))
    const asked = (model ?? modelInPath(call.path))?.slice(0, 200)
    const passing =
      read === undefined ? { body: sent, headers: headersOf(call.req) } : { ...read, body: read.body.blocks }
    const repairFor = history === undefined ? undefined : this.#repairFor(call, passing.body, history, asked ?? '')
    await this.#pass(call, { ...passing, repairFor }, isUnhealed, isUnhealed ? asked : undefined)
  }

  #checkLoop({ requestId }: Asked, body: JsonBody['body']): AgentLoop | undefined {
    const loop = agentLoopIn(body)
    if (loop === undefined) return undefined
    const { tool, times } = loop
    const isStopped = times >= this.#settings.stopLoops
    this.#metrics.loop(isStopped ? 'stopped' : 'reported')
    this.watch.loop(requestId, loop)
    if (!isStopped) return loop
    throw new Fault('invalid_request', {
      reason: 'agent_loop',
      message: {
        happened: `The agent made the same call of ${tool.slice(0, 100)} ${times} times in a row and got the same result.`,
        action: 'The gateway did not ask the model again.',
        advice: 'Tell your agent what to do instead, or raise --stop-loops.',
      },
      errorRaw: `agent_loop: ${times} equal steps`,
    })
  }

  /** AWS's signatures name the host that they are for. The client signed for the gateway, so the upstream would refuse it. */
  #checkSignature({ req }: Call): void {
    const { authorization = '', host } = req.headers
    if (!authorization.startsWith('AWS4-')) return
    const isInvalid = ({ url, passKey, headers = {} }: Upstream): boolean =>
      passKey !== false &&
      new URL(url).host !== host &&
      !Object.keys(headers).some((name) => /^authorization$/i.test(name))
    if (this.#settings.upstreams.some((upstream) => !isInvalid(upstream))) return
    throw new Fault('invalid_request', {
      message: {
        happened: `The request is signed for ${host}, so AWS would refuse it.`,
        advice: 'Use a Bedrock API key instead of a signature: set AWS_BEARER_TOKEN_BEDROCK for your agent.',
      },
      errorRaw: 'an AWS4 signature for another host than the upstream',
    })
  }

  /** A request to a model that is not healed is visible as such: to the client, in the log, the metrics and the live view. */
  async #pass(call: Call, passing: Passing, isUnhealed: boolean, model: string | undefined): Promise<void> {
    const from = monotonicMs()
    const marks: Readonly<Record<string, string>> = isUnhealed ? { [HEALED]: 'false' } : {}
    const { status, attempts, fault, repairs } = await this.#passThrough.run(call, passing, marks)
    this.#metrics.passedThrough(status)
    this.#metrics.repaired(call.api, repairs)
    for (const repair of repairs) this.watch.repaired(call.requestId, repair)
    const { requestId, method, path } = call
    const line = {
      requestId,
      method,
      path,
      status,
      ms: elapsed(from),
      ...(isUnhealed ? { model, healed: false } : {}),
      ...(repairs.length === 0 ? {} : { repairs: repairs.map(repairText) }),
    }
    const { logger } = this.#settings
    if (isUnhealed) {
      this.#metrics.unhealed()
      this.watch.unhealed(requestId, `status ${status}: ${method} ${path}, not healed`)
    }
    if (fault === null) logger?.info(line, isUnhealed ? 'passed through, not healed' : 'passed through')
    else logger?.warn({ ...line, attempts, category: fault.category, errorRaw: fault.errorRaw }, 'failed')
  }

  /** What a client may turn off for one request. */
  #repairMode({ req }: Asked & Partial<Pick<Call, 'req'>>): RepairMode {
    return req?.headers['x-breakfall-repair'] === 'never' ? 'never' : this.#settings.repair
  }

  #repairFor(call: Call, body: readonly Buffer[], api: ModelRoute['api'], model: string): Passing['repairFor'] {
    if (this.#repairMode(call) === 'never') return undefined
    const { memory } = call
    const conversations = this.#conversations
    return ({ url }) => new RequestRepair(body, { api, key: `${url} ${api} ${model}`, conversations, memory })
  }

  async #heal(
    call: Asked,
    route: ModelRoute,
    { body, json, headers }: JsonBody,
    open: (watching: SinkWatching) => RelaySink,
  ): Promise<RelayOutcome> {
    const { api } = route
    const { requestId, method, path } = call
    const loop = this.#checkLoop(call, body)
    const { dice, empty, hold, limits, logger, now, policy } = this.#settings
    const model = modelIn(json) ?? modelInPath(path)?.slice(0, 200)
    const stream = route.stream ?? (api === 'ollama' ? json['stream'] !== false : json['stream'] === true)
    const from = monotonicMs()
    let firstByteMs: number | undefined
    let bytes = 0
    const sink = open({
      onFirstByte: () => {
        firstByteMs ??= elapsed(from)
      },
      onBytes: (count) => {
        bytes += count
        this.watch.sent(requestId, count)
      },
    })
    this.watch.started(requestId, path, model, stream)
    const outcome = await relayAnswer(
      { ...route, stream, search: searchFor(route, call.search), headers, body, json },
      this.#pool.inOrder().map(targetOf),
      sink,
      {
        policy,
        hold,
        empty,
        signal: call.signal, // I1
        now,
        dice,
        pingMs: limits.pingMs,
        holdBytesMax: limits.holdBytesMax,
        holdMs: limits.holdMs,
        memory: call.memory,
        repair: this.#repairMode(call),
        conversations: this.#conversations,
        onEvent: (event) => {
          this.#metrics.event(api, event)
          this.watch.event(requestId, event)
        },
      },
    )
    this.#pool.learn(outcome.ledger)
    this.watch.ended(requestId, outcome)
    const ms = elapsed(from)
    this.#metrics.answered(api, outcome, ms, firstByteMs)
    logAnswer(logger, { requestId, method, path, model, stream, ms, firstByteMs, bytes, loop: loop?.times }, outcome)
    return outcome
  }
}

const targetOf = ({ url, profile, model, headers, passKey }: Upstream): RelayTarget => ({
  baseUrl: url,
  profile,
  model,
  headers,
  withoutKeys: passKey === false,
})

/** Bedrock serves many models, each with its own API. Only Claude's bodies have a version. */
const isKnown = ({ api }: ModelRoute, { json }: JsonBody): boolean =>
  api !== 'bedrock-messages' || typeof json['anthropic_version'] === 'string'

const hasModel = ({ model }: Upstream): boolean => model !== undefined

const elapsed = (from: number): number => Math.round(monotonicMs() - from)

const modelIn = (json: Record<string, unknown> | undefined): string | undefined =>
  typeof json?.['model'] === 'string' ? json['model'].slice(0, 200) : undefined
