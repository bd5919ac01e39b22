/**
 * Which upstreams to ask first. One that failed several times in a row goes to the end of the list for a while; none is
 * ever left out, since a place that was down may be all there is.
 */
import type { FaultCategory } from '@breakfall/faults'
import type { AttemptRecord } from '@breakfall/model'
import type { Upstream } from './options.ts'

export type UpstreamHealth = {
  readonly url: string
  readonly isHealthy: boolean
  readonly failuresInARow: number
  readonly lastFault: FaultCategory | null
}

const FAILURES_TO_DOUBT = 3 // one fault is weather
const DOUBT_MS_FIRST = 10_000
const DOUBT_MS_MAX = 120_000

export class UpstreamPool {
  readonly #entries: Entry[]
  readonly #now: () => number

  constructor(upstreams: readonly Upstream[], now: () => number) {
    this.#now = now
    this.#entries = upstreams.map((upstream) => ({ upstream, failuresInARow: 0, doubtedUntil: 0, lastFault: null }))
  }

  /** In the order in which to ask: those in good health as configured, then the others. */
  inOrder(): readonly Upstream[] {
    const now = this.#now()
    const good = this.#entries.filter((entry) => entry.doubtedUntil <= now)
    const doubted = this.#entries.filter((entry) => entry.doubtedUntil > now)
    return [...good, ...doubted].map(({ upstream }) => upstream)
  }

  /** What the attempts of one request have shown. */
  learn(ledger: readonly AttemptRecord[]): void {
    for (const { baseUrl, fault } of ledger) {
      if (fault === null || !SAYS_IT_IS_ILL.has(fault.category)) this.answered(baseUrl)
      else this.failed(baseUrl, fault.category)
    }
  }

  answered(url: string): void {
    const entry = this.#entries.find(({ upstream }) => upstream.url === url)
    if (entry === undefined) return
    entry.failuresInARow = 0
    entry.doubtedUntil = 0
  }

  failed(url: string, category: FaultCategory): void {
    const entry = this.#entries.find(({ upstream }) => upstream.url === url)
    if (entry === undefined) return
    entry.failuresInARow++
    entry.lastFault = category
    const over = entry.failuresInARow - FAILURES_TO_DOUBT
    if (over >= 0) entry.doubtedUntil = this.#now() + Math.min(DOUBT_MS_MAX, DOUBT_MS_FIRST * 2 ** Math.min(10, over))
  }

  health(): readonly UpstreamHealth[] {
    const now = this.#now()
    return this.#entries.map(({ upstream, failuresInARow, doubtedUntil, lastFault }) => ({
      url: upstream.url,
      isHealthy: doubtedUntil <= now,
      failuresInARow,
      lastFault,
    }))
  }
}

// ---- details ----

type Entry = {
  readonly upstream: Upstream
  failuresInARow: number
  doubtedUntil: number
  lastFault: FaultCategory | null
}

/** Faults of the server, not of the request. */
const SAYS_IT_IS_ILL: ReadonlySet<FaultCategory> = new Set([
  'model_unreachable',
  'model_stream_interrupted',
  'model_stream_stalled',
  'model_server_error',
  'model_overloaded',
  'model_endpoint_invalid',
  'network_down',
] satisfies FaultCategory[])
