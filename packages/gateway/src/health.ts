/**
 * Which upstreams to ask first. An upstream that failed several times in a row moves to the end of the list for a while. None
 * is ever dropped: it may be the only one left.
 */
import { type FaultCategory, redact } from '@breakfall/faults'
import type { AttemptRecord } from '@breakfall/model'
import type { Upstream } from './options.ts'

export type UpstreamHealth = {
  readonly url: string
  readonly isHealthy: boolean
  readonly failuresInARow: number
  readonly lastFault: FaultCategory | null
}

const FAILURES_UNTIL_UNHEALTHY = 3 // one fault alone means little
const UNHEALTHY_MS_FIRST = 10_000
const UNHEALTHY_MS_MAX = 120_000

export class UpstreamPool {
  readonly #entries: Entry[]
  readonly #now: () => number

  constructor(upstreams: readonly Upstream[], now: () => number) {
    this.#now = now
    this.#entries = upstreams.map((upstream) => ({ upstream, failuresInARow: 0, unhealthyUntil: 0, lastFault: null }))
  }

  /** In the order to ask: healthy upstreams as configured, then the others. */
  inOrder(): readonly Upstream[] {
    const now = this.#now()
    const healthy = this.#entries.filter((entry) => entry.unhealthyUntil <= now)
    const unhealthy = this.#entries.filter((entry) => entry.unhealthyUntil > now)
    return [...healthy, ...unhealthy].map(({ upstream }) => upstream)
  }

  /** Updates the health from the attempts of one request. */
  learn(ledger: readonly AttemptRecord[]): void {
    for (const { baseUrl, fault } of ledger) {
      if (fault === null || !SERVER_FAULTS.has(fault.category)) this.answered(baseUrl)
      else this.failed(baseUrl, fault.category)
    }
  }

  answered(url: string): void {
    const entry = this.#entries.find(({ upstream }) => upstream.url === url)
    if (entry === undefined) return
    entry.failuresInARow = 0
    entry.unhealthyUntil = 0
  }

  failed(url: string, category: FaultCategory): void {
    const entry = this.#entries.find(({ upstream }) => upstream.url === url)
    if (entry === undefined) return
    entry.failuresInARow++
    entry.lastFault = category
    const over = entry.failuresInARow - FAILURES_UNTIL_UNHEALTHY
    if (over >= 0)
      entry.unhealthyUntil = this.#now() + Math.min(UNHEALTHY_MS_MAX, UNHEALTHY_MS_FIRST * 2 ** Math.min(10, over))
  }

  health(): readonly UpstreamHealth[] {
    const now = this.#now()
    return this.#entries.map(({ upstream, failuresInARow, unhealthyUntil, lastFault }) => ({
      url: redact(upstream.url), // it may hold a key or a password
      isHealthy: unhealthyUntil <= now,
      failuresInARow,
      lastFault,
    }))
  }
}

// ---- details ----

type Entry = {
  readonly upstream: Upstream
  failuresInARow: number
  unhealthyUntil: number
  lastFault: FaultCategory | null
}

/** Faults of the server, not of the request. */
const SERVER_FAULTS: ReadonlySet<FaultCategory> = new Set([
  'model_unreachable',
  'model_stream_interrupted',
  'model_stream_stalled',
  'model_server_error',
  'model_overloaded',
  'model_endpoint_invalid',
  'network_down',
] satisfies FaultCategory[])
