/** One call to a runner: a checked response, or a Fault that says how far the call got. */
import { classify, Fault, LIMITS, POLICY_DEFAULTS, type RetryPolicy } from '@breakfall/faults'
import { EPOCH_HEADER, RUNNER_HEADER } from '@breakfall/wire'
import { Agent, type Dispatcher } from 'undici'
import { type RouteName, RUNNER_ROUTES, pathOf } from '../contract/routes.ts'

export type HttpOptions = {
  readonly url: string
  readonly token: string
  readonly prefix: string
  readonly runnerId: string | undefined
  readonly epoch: number | undefined
  /** Ends every call. */
  readonly until?: AbortSignal | undefined
  readonly connectMs: number
  readonly headersMs: number
}

export type CallOptions = {
  readonly params?: Readonly<Record<string, string>> | undefined
  readonly query?: Readonly<Record<string, string | number | undefined>> | undefined
  readonly json?: unknown
  readonly bytes?: Uint8Array | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly signal?: AbortSignal | undefined
  readonly headersMs?: number | undefined
  /** Longest silence within the response. */
  readonly bodyMs?: number | undefined
}

/** A schema, or anything else that returns what it accepts and throws otherwise. */
export type Parser<T> = { readonly parse: (value: unknown) => T }

export type RunnerAnswer = {
  readonly status: number
  readonly headers: Dispatcher.ResponseData['headers']
  readonly body: Dispatcher.ResponseData['body']
}

/** How long a client keeps calling a runner that does not answer: long enough for a restart, about six seconds on average. */
export const RUNNER_AWAY: RetryPolicy = {
  ...POLICY_DEFAULTS,
  attemptsMax: LIMITS.resolvesMax,
  backoffMs: 100, // a runner that restarts listens again within a second
  waitMsMax: LIMITS.resolveMsMax,
}

const BODY_MS = 60_000
const IDLE_MS = 4_000
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

export class RunnerHttp {
  readonly #options: HttpOptions
  readonly #agent: Agent

  constructor(options: HttpOptions, agent?: Agent) {
    this.#options = options
    this.#agent =
      agent ??
      new Agent({
        connect: { timeout: options.connectMs },
        keepAliveTimeout: IDLE_MS,
        keepAliveMaxTimeout: IDLE_MS, // the runner's own hint is a minute
        connections: 256,
      })
  }

  /** The same runner over the same connections, for another owner. */
  withEpoch(epoch: number): RunnerHttp {
    return new RunnerHttp({ ...this.#options, epoch }, this.#agent)
  }

  /** The same runner over the same connections, until the signal aborts. */
  withUntil(until: AbortSignal): RunnerHttp {
    return new RunnerHttp({ ...this.#options, until }, this.#agent)
  }

  /** The response to a call that succeeded. The caller reads its body. */
  async send(name: RouteName, options: CallOptions): Promise<RunnerAnswer> {
    const { method } = RUNNER_ROUTES[name]
    try {
      const { origin, pathname } = new URL(this.#options.url)
      const { statusCode, headers, body } = await this.#agent.request({
        origin,
        path: pathname.replace(/\/+$/, '') + this.#targetOf(name, options), // sent unchanged: undici normalises only URLs
        method: method.toUpperCase(),
        headers: this.#headersOf(name, options),
        body: options.json === undefined ? (options.bytes ?? null) : JSON.stringify(options.json),
        headersTimeout: options.headersMs ?? this.#options.headersMs,
        bodyTimeout: options.bodyMs ?? BODY_MS,
        ...this.#signalOf(options),
      })
      if (statusCode >= 400) throw await this.#refused(name, statusCode, headers, body, options)
      return { status: statusCode, headers, body }
    } catch (error) {
      throw this.fault(error, name, options, 'headers')
    }
  }

  async json<T>(name: RouteName, parser: Parser<T>, options: CallOptions): Promise<T> {
    const answer = await this.send(name, options)
    const bytes = await this.bytes(name, answer, options)
    try {
      return parser.parse(JSON.parse(bytes.toString('utf8')))
    } catch (cause) {
      throw new Fault('runner_protocol_error', {
        cause,
        facts: { address: this.#options.url, detail: `an unexpected response to ${name}` },
        sideEffects: isRead(name) ? 'none' : 'unknown',
      })
    }
  }

  async bytes(name: RouteName, answer: RunnerAnswer, options: CallOptions): Promise<Buffer> {
    try {
      const chunks: Buffer[] = []
      let length = 0
      const body: AsyncIterable<Buffer> = answer.body
      for await (const chunk of body) {
        length += chunk.length
        if (length > ANSWER_BYTES_MAX)
          throw new Fault('payload_too_large', { facts: { limit: `${ANSWER_BYTES_MAX} bytes in an answer` } })
        chunks.push(chunk)
      }
      return Buffer.concat(chunks, length)
    } catch (error) {
      throw this.fault(error, name, options, 'stream')
    }
  }

  /** The failure as a fault of this boundary. Only a call without a connection is certain to have had no effect. */
  fault(error: unknown, name: RouteName, options: CallOptions, phase: 'headers' | 'stream'): Fault {
    const fault = classify(error, {
      boundary: 'runner',
      signal: options.signal,
      address: URL.parse(this.#options.url)?.host ?? this.#options.url,
      boxId: options.params?.['id'],
      execId: options.params?.['execId'],
    })
    if (fault.report.status !== undefined || fault === error) return fault
    const reached = fault.report.phase ?? phase
    return fault.with({ phase: reached, sideEffects: reached === 'connect' || isRead(name) ? 'none' : 'unknown' })
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  // ---- details ----

  #signalOf({ signal }: CallOptions): { signal?: AbortSignal } {
    const { until } = this.#options
    if (until === undefined) return signal === undefined ? {} : { signal }
    return { signal: signal === undefined ? until : AbortSignal.any([signal, until]) }
  }

  #targetOf(name: RouteName, options: CallOptions): string {
    const query = new URLSearchParams()
    for (const [key, value] of Object.entries(options.query ?? {}))
      if (value !== undefined) query.set(key, String(value))
    const tail = query.size === 0 ? '' : `?${query.toString()}`
    return pathOf(name, { prefix: this.#options.prefix, ...options.params }) + tail
  }

  #headersOf(name: RouteName, options: CallOptions): Record<string, string> {
    const { token, runnerId, epoch } = this.#options
    return {
      authorization: `Bearer ${token}`,
      ...(options.json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(options.bytes === undefined ? {} : { 'content-type': 'application/octet-stream' }),
      ...(runnerId === undefined ? {} : { [RUNNER_HEADER]: runnerId }),
      ...(epoch === undefined || isRead(name) ? {} : { [EPOCH_HEADER]: String(epoch) }),
      ...options.headers,
    }
  }

  async #refused(
    name: RouteName,
    status: number,
    headers: RunnerAnswer['headers'],
    body: RunnerAnswer['body'],
    options: CallOptions,
  ): Promise<Fault> {
    const bytes = await this.bytes(name, { status, headers, body }, options)
    const text = bytes.toString('utf8')
    const fault = classify(undefined, {
      boundary: 'runner',
      response: { status, headers, body: parsed(text) },
      boxId: options.params?.['id'],
      execId: options.params?.['execId'],
    })
    // For the runner, its client has no valid token; for the user of this client, the runner's credentials are wrong.
    return fault.category === 'unauthorized'
      ? new Fault('runner_auth_failed', { cause: fault, status, facts: { address: this.#options.url } })
      : fault
  }
}

const isRead = (name: RouteName): boolean => RUNNER_ROUTES[name].method === 'get'

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // not from a runner; kept for the raw error
  }
}
