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
  type RelayOutcome,
  repairHeaders,
  type RequestRepair,
  type ReturnedHeaders,
  upstreamHeaders,
  upstreamSearch,
} from '@breakfall/model/internal'
import { Agent, type Dispatcher, request } from 'undici'
import { type Call, refuse } from './call.ts'
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

/** What passes. */
export type Passing = {
  readonly body: readonly Buffer[]
  readonly headers: Readonly<Record<string, string>>
  /** For a body with a conversation, which the upstream may refuse. */
  readonly repairFor?: ((upstream: Upstream) => RequestRepair) | undefined
}

/** What the client got, and why if the gateway failed. */
export type Passed = {
  readonly status: number
  readonly attempts: number
  readonly fault: FaultReport | null
  readonly repairs: RelayOutcome['repairs']
}

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
  async run(call: Call, passing: Passing, marks: Readonly<Record<string, string>>): Promise<Passed> {
    const { policy, dice } = this.#options
    let attempts = 0
    let repairs: Passed['repairs'] = []
    const ask = async (attempt: number): Promise<number> => {
      attempts = attempt
      const passed = await this.#once(call, passing, marks, attempt)
      ;({ repairs } = passed)
      return passed.status
    }
    const isPatient = !isReading(call)
    const outcome = await retryOutcome(ask, {
      policy,
      dice,
      signal: call.signal,
      situation: (failures) => ({ at: 'call', ...failures, isPatient }), // I1
    })
    if (outcome.ok) return { status: outcome.value, attempts, fault: null, repairs }
    if (call.signal.aborted) return { status: 499, attempts, fault: null, repairs }
    const fault = withDecision(outcome.fault, outcome.decision, attempts)
    return { status: refuse(call, fault, marks), attempts, fault: fault.report, repairs }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  /** Each attempt asks the next upstream. */
  async #once(
    call: Call,
    passing: Passing,
    marks: Readonly<Record<string, string>>,
    attempt: number,
  ): Promise<Pick<Passed, 'status' | 'repairs'>> {
    const { pool, clientStuckMs } = this.#options
    const upstreams = pool.inOrder()
    const upstream = upstreams[(attempt - 1) % upstreams.length]
    assert(upstream !== undefined, 'a gateway has at least one upstream')
    try {
      const { answer, repairs, headers } = await this.#asked(call, upstream, passing)
      pool.answered(upstream.url)
      return { status: await forward(call, answer, { ...headers, ...marks }, clientStuckMs), repairs }
    } catch (thrown) {
      const fault = classify(thrown, { boundary: 'model', signal: call.signal, address: new URL(upstream.url).host })
      if (call.signal.aborted) throw fault
      pool.failed(upstream.url, fault.category)
      if (call.res.headersSent) throw fault.with({ next: 'never' }) // I2
      throw isHarmless(call, fault) ? fault : fault.with({ sideEffects: 'unknown' }) // I1
    }
  }

  /** Asks until the upstream takes the conversation, or until nothing more can be done for it. Then its first refusal is the answer. */
  async #asked(call: Call, upstream: Upstream, passing: Passing): Promise<Asked> {
    const repair = passing.repairFor?.(upstream)
    let first: Answer | undefined
    for (;;) {
      const answer = await this.#ask(call, upstream, passing.headers, repair?.body ?? passing.body)
      const { statusCode } = answer
      const notes = repair?.notes ?? []
      if (repair === undefined || !REFUSALS.has(statusCode)) {
        const isTaken = statusCode < 300
        if (isTaken) repair?.taken()
        return { answer, headers: repairHeaders(notes), repairs: notes.map((note) => ({ ...note, isTaken })) }
      }
      const { text, body } = await peeked(answer.body)
      const refusal = { statusCode, headers: answer.headers, body }
      const wasKnown = repair.isKnown
      if (text !== undefined && repair.refused(statusCode, jsonOr(text))) {
        if (!wasKnown) first ??= refusal
        continue
      }
      const repairs = notes.map((note) => ({ ...note, isTaken: false }))
      return { answer: first ?? refusal, headers: repairHeaders([], first !== undefined), repairs }
    }
  }

  #ask(
    call: Call,
    upstream: Upstream,
    sent: Passing['headers'],
    body: readonly Buffer[],
  ): Promise<Dispatcher.ResponseData> {
    const encoding = call.req.headers['accept-encoding']
    const headers = upstreamHeaders(sent, {
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

/** An answer whose body may have been read already. */
type Answer = {
  readonly statusCode: number
  readonly headers: IncomingHttpHeaders
  readonly body: AsyncIterable<Buffer> | Iterable<Buffer>
}
type Asked = { readonly answer: Answer; readonly headers: ReturnedHeaders; readonly repairs: Passed['repairs'] }

const REFUSALS: ReadonlySet<number> = new Set([400, 404, 422, 500])
const REFUSAL_BYTES_MAX = 1024 * 1024

/** The text of a body that is short enough, and all of the body. */
async function peeked(
  source: AsyncIterable<Buffer>,
): Promise<{ readonly text: string | undefined; readonly body: Answer['body'] }> {
  const chunks: Buffer[] = []
  let length = 0
  const rest = source[Symbol.asyncIterator]()
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) {
    chunks.push(next.value)
    length += next.value.length
    if (length > REFUSAL_BYTES_MAX) return { text: undefined, body: joined(chunks, rest) }
  }
  return { text: Buffer.concat(chunks).toString(), body: chunks }
}

async function* joined(chunks: readonly Buffer[], rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield* chunks
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text // some routers send only the sentence
  }
}

function urlFor(call: Call, upstream: Upstream): URL {
  const url = new URL(addressOf(upstream.url, placeOf(call.path)))
  const search = upstreamSearch(call.search, keyRule(upstream))
  if (search !== '') url.search = url.search === '' ? search : `${url.search}&${search.slice(1)}`
  return url
}

const keyRule = ({ passKey }: Upstream): { readonly withoutKeys: boolean } => ({ withoutKeys: passKey === false })

async function forward(call: Call, answer: Answer, more: ReturnedHeaders, clientStuckMs: number): Promise<number> {
  const { res, requestId } = call
  const { statusCode, body } = answer
  res.writeHead(statusCode, {
    ...sendable({ ...passedBack(answer.headers), ...more }),
    [REQUEST_ID]: requestId,
  })
  res.flushHeaders()
  try {
    for await (const chunk of body) {
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
