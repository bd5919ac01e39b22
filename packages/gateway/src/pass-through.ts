/**
 * Passes through the routes that are not healed (`/v1/models`, `/v1/embeddings`, …), streaming both ways.
 *
 * I1  A call is repeated only if the upstream cannot have acted on it: no connection was made, or the method only reads.
 *     While no connection can be made, a call that does more than read is as patient as an answer (`patienceMs`).
 * I2  When an answer breaks off, so does the client's connection. The client never gets a shortened answer as a whole one.
 */
import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { classify, type Fault, type FaultReport, type Policy, retryOutcome, withDecision } from '@breakfall/faults'
import {
  addressOf,
  clientHeaders,
  payload,
  type ReturnedHeaders,
  upstreamHeaders,
  upstreamSearch,
} from '@breakfall/model/internal'
import { Agent, type Dispatcher, request } from 'undici'
import { type Call, headersOf, refuse } from './call.ts'
import type { UpstreamPool } from './health.ts'
import { drained, REQUEST_ID, sendable } from './http-sink.ts'
import type { Upstream } from './options.ts'
import { placeOf } from './paths.ts'

export type PassThroughOptions = {
  readonly pool: UpstreamPool
  readonly policy: Policy
  readonly dice: () => number
  readonly clientStuckMs: number
}

/** What the client got, and why if the gateway failed. */
export type Passed = { readonly status: number; readonly attempts: number; readonly fault: FaultReport | null }

export class PassThrough {
  readonly #options: PassThroughOptions
  readonly #agent: Agent

  constructor(options: PassThroughOptions) {
    const { policy } = options
    this.#options = options
    this.#agent = new Agent({
      connect: { timeout: policy.connectMs },
      headersTimeout: policy.headersMs,
      bodyTimeout: policy.livenessMs,
      allowH2: false,
    })
  }

  /** `marks`: headers that the answer gets. */
  async run(call: Call, body: readonly Buffer[], marks: Readonly<Record<string, string>>): Promise<Passed> {
    const { policy, dice } = this.#options
    let attempts = 0
    const ask = (attempt: number): Promise<number> => {
      attempts = attempt
      return this.#once(call, body, marks, attempt)
    }
    const isPatient = !isReading(call)
    const outcome = await retryOutcome(ask, {
      policy,
      dice,
      signal: call.signal,
      situation: (failures) => ({ at: 'call', ...failures, isPatient }), // I1
    })
    if (outcome.ok) return { status: outcome.value, attempts, fault: null }
    if (call.signal.aborted) return { status: 499, attempts, fault: null }
    const fault = withDecision(outcome.fault, outcome.decision, attempts)
    return { status: refuse(call, fault, marks), attempts, fault: fault.report }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  /** Each attempt asks the next upstream. */
  async #once(
    call: Call,
    body: readonly Buffer[],
    marks: Readonly<Record<string, string>>,
    attempt: number,
  ): Promise<number> {
    const { pool, clientStuckMs } = this.#options
    const upstreams = pool.inOrder()
    const upstream = upstreams[(attempt - 1) % upstreams.length]
    assert(upstream !== undefined, 'a gateway has at least one upstream')
    try {
      const answer = await this.#ask(call, upstream, body)
      pool.answered(upstream.url)
      return await forward(call, answer, marks, clientStuckMs)
    } catch (thrown) {
      const fault = classify(thrown, { boundary: 'model', signal: call.signal, address: new URL(upstream.url).host })
      if (call.signal.aborted) throw fault
      pool.failed(upstream.url, fault.category)
      if (call.res.headersSent) throw fault.with({ next: 'never' }) // I2
      throw isHarmless(call, fault) ? fault : fault.with({ sideEffects: 'unknown' }) // I1
    }
  }

  #ask(call: Call, upstream: Upstream, body: readonly Buffer[]): Promise<Dispatcher.ResponseData> {
    const encoding = call.req.headers['accept-encoding']
    const headers = upstreamHeaders(headersOf(call.req), {
      headers: upstream.headers,
      ...keyRule(upstream),
    })
    // The gateway does not read the body, so the client's own encoding applies.
    if (typeof encoding === 'string') headers['accept-encoding'] = encoding
    return request(urlFor(call, upstream), {
      dispatcher: this.#agent,
      method: call.method,
      ...(body.length === 0 ? { headers } : payload(headers, body)),
      signal: call.signal,
    })
  }
}

// ---- details ----

function urlFor(call: Call, upstream: Upstream): URL {
  const url = new URL(addressOf(upstream.url, placeOf(call.path)))
  const search = upstreamSearch(call.search, keyRule(upstream))
  if (search !== '') url.search = url.search === '' ? search : `${url.search}&${search.slice(1)}`
  return url
}

const keyRule = ({ passKey }: Upstream): { readonly withoutKeys: boolean } => ({ withoutKeys: passKey === false })

async function forward(
  call: Call,
  answer: Dispatcher.ResponseData,
  marks: Readonly<Record<string, string>>,
  clientStuckMs: number,
): Promise<number> {
  const { res, requestId } = call
  const { statusCode, body } = answer
  res.writeHead(statusCode, {
    ...sendable(passedBack(answer.headers)),
    ...marks,
    [REQUEST_ID]: requestId,
  })
  res.flushHeaders()
  try {
    const chunks: AsyncIterable<Buffer> = body
    for await (const chunk of chunks) {
      if (!res.write(chunk)) await drained(res, clientStuckMs)
    }
    res.end()
  } catch (thrown) {
    if (!call.signal.aborted) res.destroy() // I2
    throw thrown
  }
  return statusCode
}

/** The body passes unchanged, so its length is still right. */
function passedBack(headers: IncomingHttpHeaders): ReturnedHeaders {
  const length = headers['content-length']
  return { ...clientHeaders(headers), ...(length === undefined ? {} : { 'content-length': length }) }
}

/** A repeated call does no harm: it only reads, or the upstream never received it. */
const isHarmless = (call: Call, { category }: Fault): boolean => isReading(call) || category === 'model_unreachable'

const isReading = ({ method }: Call): boolean => method === 'GET' || method === 'HEAD'
