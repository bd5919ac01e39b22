/**
 * The gateway: point an agent's base URL at it, and its streams survive. Routes requests to the healer or passes them
 * through, and counts, logs and shows what happens.
 *
 * I1  A client that leaves ends its upstream request at once.
 * I2  Bodies, concurrent requests and the shutdown are bounded; each limit has its own response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { classify, Fault, isFault } from '@breakfall/faults'
import { type JsonBody, MemoryBudget, receiveBody, relayAnswer, type RelayTarget } from '@breakfall/model/internal'
import { bodyChunks, checkHost, checkOrigin, createHttpServer, type HttpServer, sameToken } from '@breakfall/wire/node'
import { type Call, headersOf, openCall, refuse, refuseUpgrade, unreadable, wantsWebSocket } from './call.ts'
import { monotonicMs } from './clock.ts'
import { UpstreamPool } from './health.ts'
import { JsonArraySink, searchFor, wantsArray } from './gemini-array.ts'
import { HttpSink } from './http-sink.ts'
import { logAnswer } from './log.ts'
import { GatewayMetrics } from './metrics.ts'
import { type GatewayOptions, type GatewaySettings, resolveOptions, type Upstream } from './options.ts'
import { PassThrough } from './pass-through.ts'
import { ambiguityIn, isLikeModelRoute, isServed, modelInPath, type ModelRoute, modelRoute } from './paths.ts'
import { type GatewaySnapshot, type GatewayWatch, Watch } from './watch.ts'

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
  readonly #calls = new Set<Call>()
  #isClosing = false

  constructor(settings: GatewaySettings) {
    const { upstreams, policy, now } = settings
    const { requestMs, requestsMax } = settings.limits
    this.#settings = settings
    this.#memory = new MemoryBudget(settings.limits.memoryBytesMax)
    this.#pool = new UpstreamPool(upstreams, now)
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
      this.#admit(call)
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

  #admit(call: Call): void {
    const { hosts, token, limits } = this.#settings
    checkHost(call.req, hosts)
    checkOrigin(call.req, hosts)
    const given = call.req.headers['x-breakfall-token']
    if (token !== undefined && !sameToken(typeof given === 'string' ? given : '', token))
      throw new Fault('unauthorized', { message: { advice: 'Send it in the header x-breakfall-token.' } })
    if (this.#isClosing) throw new Fault('shutting_down')
    if (this.#calls.size > limits.requestsMax)
      // I2
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
          happened: 'There is no route outside /v1 and /v1beta here.',
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
    const { sent, model, read } = await receiveBody(bodyChunks(call.req, bodySilenceMs), {
      headers: headersOf(call.req),
      bytesMax: bodyBytesMax,
      memory: call.memory, // I2
      look: route !== undefined ? 'fields' : isPost ? 'model' : 'nothing',
    })
    if (read === undefined && isPost && isLikeModelRoute(call.path) && this.#settings.upstreams.some(hasModel))
      throw new Fault('invalid_request', {
        facts: { name: 'the model of this request cannot be replaced, as an upstream here demands' },
        errorRaw: `not a JSON object that every server reads in the same way, or an unusual path: ${call.path.slice(0, 200)}`,
      })
    // A body that is not JSON is left for the upstream to refuse.
    const asked = isPost ? (model ?? modelInPath(call.path)) : undefined
    if (route === undefined || read === undefined)
      await this.#pass(call, sent, route !== undefined, asked?.slice(0, 200))
    else await this.#heal(call, route, read)
  }

  /** A request to a model that is not healed is visible as such in the log, the metrics and the live view. */
  async #pass(call: Call, body: readonly Buffer[], isModelRoute: boolean, model: string | undefined): Promise<void> {
    const from = monotonicMs()
    const { status, attempts, fault } = await this.#passThrough.run(call, body)
    this.#metrics.passedThrough(status)
    const { requestId, method, path } = call
    const isUnhealed = isModelRoute || model !== undefined
    const line = { requestId, method, path, status, ms: elapsed(from), ...(isUnhealed ? { model, healed: false } : {}) }
    const { logger } = this.#settings
    if (isUnhealed) {
      this.#metrics.unhealed()
      this.watch.unhealed(requestId, `status ${status}: ${method} ${path}, not healed`)
    }
    if (fault === null) logger?.info(line, isUnhealed ? 'passed through, not healed' : 'passed through')
    else logger?.warn({ ...line, attempts, category: fault.category, errorRaw: fault.errorRaw }, 'failed')
  }

  async #heal(call: Call, route: ModelRoute, { body, json, headers }: JsonBody): Promise<void> {
    const { api } = route
    const { requestId, method, path, res } = call
    const { dice, hold, limits, logger, now, policy } = this.#settings
    const model = modelIn(json) ?? /models\/([^/:]+)/.exec(path)?.[1]
    const stream = route.stream ?? json['stream'] === true
    const from = monotonicMs()
    let firstByteMs: number | undefined
    let bytes = 0
    const sink = new HttpSink(res, {
      requestId,
      clientStuckMs: limits.clientStuckMs,
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
      { ...route, search: searchFor(route, call.search), headers, body, json },
      this.#pool.inOrder().map(targetOf),
      wantsArray(route, call.search) ? new JsonArraySink(sink) : sink,
      {
        policy,
        hold,
        signal: call.signal, // I1
        now,
        dice,
        pingMs: limits.pingMs,
        holdBytesMax: limits.holdBytesMax,
        holdMs: limits.holdMs,
        memory: call.memory,
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
    logAnswer(logger, { requestId, method, path, model, stream, ms, firstByteMs, bytes }, outcome)
  }
}

const targetOf = ({ url, profile, model, headers, passKey }: Upstream): RelayTarget => ({
  baseUrl: url,
  profile,
  model,
  headers,
  withoutKeys: passKey === false,
})

const hasModel = ({ model }: Upstream): boolean => model !== undefined

const elapsed = (from: number): number => Math.round(monotonicMs() - from)

const modelIn = (json: Record<string, unknown> | undefined): string | undefined =>
  typeof json?.['model'] === 'string' ? json['model'].slice(0, 200) : undefined
