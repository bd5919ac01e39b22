/**
 * Passes on what is not healed (`/v1/models`, `/v1/responses`, …), streaming both ways as it comes.
 *
 * I1  Tried again only where nothing can have happened: a connection that never stood, or a method that only reads.
 * I2  An answer that breaks off breaks the client's connection, too: never a silent cut.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { backoffMs, classify, Fault, type FaultReport, lastWords, type Policy } from '@breakfall/faults'
import { clientHeaders, upstreamHeaders } from '@breakfall/model'
import { Agent, type Dispatcher, request } from 'undici'
import { type Call, headersOf, refuse } from './call.ts'
import type { UpstreamPool } from './health.ts'
import { drained, REQUEST_ID, sendable } from './http-sink.ts'
import type { Upstream } from './options.ts'

export type PassThroughOptions = {
  readonly pool: UpstreamPool
  readonly policy: Policy
  readonly dice: () => number
  readonly clientStuckMs: number
}

/** What the client got, and why where it is a failure of ours. */
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

  async run(call: Call, body: Buffer): Promise<Passed> {
    const { policy, dice, pool } = this.#options
    for (let attempt = 1; ; attempt++) {
      const upstreams = pool.inOrder()
      const upstream = upstreams[(attempt - 1) % upstreams.length] as Upstream
      try {
        const answer = await this.#ask(call, upstream, body)
        pool.answered(upstream.url)
        return { status: await forward(call, answer, this.#options.clientStuckMs), attempts: attempt, fault: null }
      } catch (thrown) {
        const fault = classify(thrown, { boundary: 'model', signal: call.signal, address: new URL(upstream.url).host })
        if (call.signal.aborted) return { status: 499, attempts: attempt, fault: null }
        pool.failed(upstream.url, fault.category)
        if (call.res.headersSent || !mayRepeat(call, fault) || attempt >= policy.attemptsMax) {
          const last = lastOf(call, fault, attempt)
          return { status: refuse(call, last), attempts: attempt, fault: last.report }
        }
        await wait(backoffMs(attempt, policy, dice()), undefined, { signal: call.signal }).catch(() => {
          // The client left while we waited: the next round sees that in its signal.
        })
      }
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  #ask(call: Call, upstream: Upstream, body: Buffer): Promise<Dispatcher.ResponseData> {
    const encoding = call.req.headers['accept-encoding']
    const headers = upstreamHeaders(headersOf(call.req), {
      headers: upstream.headers,
      withoutKeys: upstream.passKey === false,
    })
    // Nothing is read on the way, so that the client's own wish stands.
    if (typeof encoding === 'string') headers['accept-encoding'] = encoding
    return request(urlFor(call, upstream), {
      dispatcher: this.#agent,
      method: call.method as Dispatcher.HttpMethod,
      headers,
      body: body.length === 0 ? null : body,
      signal: call.signal,
    })
  }
}

// ---- details ----

/** The same path under the upstream's base, and never outside it. */
function urlFor(call: Call, upstream: Upstream): URL {
  if (climbs(call.path)) throw new Fault('not_found', { facts: { name: 'route outside /v1' } })
  const url = new URL(upstream.url)
  const base = url.pathname.replace(/\/+$/, '')
  url.pathname = base + call.path.slice('/v1'.length)
  if (url.pathname !== base && !url.pathname.startsWith(`${base}/`))
    throw new Fault('not_found', { facts: { name: 'route outside /v1' } })
  if (call.search !== '') url.search = url.search === '' ? call.search : `${url.search}&${call.search.slice(1)}`
  return url
}

/** `..%2f` is one segment to us and two to a server that decodes first. */
function climbs(path: string): boolean {
  try {
    return decodeURIComponent(path).split(/[/\\]/).includes('..')
  } catch {
    return false // not an escape that anybody can decode: passed on as it is
  }
}

async function forward(call: Call, answer: Dispatcher.ResponseData, clientStuckMs: number): Promise<number> {
  const { res, requestId } = call
  const { statusCode, body } = answer
  const cookies = answer.headers['set-cookie']
  res.writeHead(statusCode, {
    ...sendable(passedBack(answer.headers)),
    ...(Array.isArray(cookies) ? { 'set-cookie': cookies } : {}), // the one header that must not be joined
    [REQUEST_ID]: requestId,
  })
  res.flushHeaders()
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (!res.write(chunk)) await drained(res, clientStuckMs)
    }
    res.end()
  } catch (thrown) {
    if (!call.signal.aborted) res.destroy() // I2
    throw thrown
  }
  return statusCode
}

/** The body passes as it is, so that its length may be told. */
function passedBack(headers: IncomingHttpHeaders): Record<string, string> {
  const length = headers['content-length']
  return { ...clientHeaders(headers), ...(length === undefined ? {} : { 'content-length': length }) }
}

/** The fault as the last word: nothing is tried again after it. */
function lastOf(call: Call, fault: Fault, attempt: number): Fault {
  const because = mayRepeat(call, fault)
    ? 'attempts_spent'
    : isTransient(fault)
      ? 'side_effects_unknown'
      : 'not_retryable'
  return fault.with({ error: lastWords(fault.error, because, attempt), stopped: because })
}

const isTransient = ({ report: { next } }: Fault): boolean => next === 'retry' || next === 'park'

function mayRepeat(call: Call, fault: Fault): boolean {
  if (!isTransient(fault)) return false
  return call.method === 'GET' || call.method === 'HEAD' || fault.category === 'model_unreachable' // I1
}
