/** The gateway's numbers, in Prometheus' text format. Labels are closed lists: no client can add to them. */
import type { RelayApiName } from '@breakfall/model'
import type { RelayEvent, RelayOutcome } from '@breakfall/model/internal'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { UpstreamPool } from './health.ts'

const DOUBTS: ReadonlySet<unknown> = new Set(['empty_answer', 'thoughts_only', 'leaked_call', 'missing_parameter'])

const SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600]

export class GatewayMetrics {
  readonly registry = new Registry()
  readonly #requests = new Counter({
    name: 'breakfall_gateway_requests_total',
    help: 'Requests by API and status that the client got',
    labelNames: ['api', 'status'],
    registers: [this.registry],
  })
  readonly #attempts = new Counter({
    name: 'breakfall_gateway_attempts_total',
    help: 'Requests made to upstreams',
    labelNames: ['api'],
    registers: [this.registry],
  })
  readonly #faults = new Counter({
    name: 'breakfall_gateway_faults_total',
    help: 'Failed attempts by category, and whether content had reached the client',
    labelNames: ['category', 'after_content'],
    registers: [this.registry],
  })
  readonly #heals = new Counter({
    name: 'breakfall_gateway_healed_total',
    help: 'Answers that were whole in spite of a fault, by the last rung',
    labelNames: ['how'],
    registers: [this.registry],
  })
  readonly #lost = new Counter({
    name: 'breakfall_gateway_lost_total',
    help: 'Answers that ended in an error of ours or of the upstream, by category',
    labelNames: ['category'],
    registers: [this.registry],
  })
  readonly #repairs = new Counter({
    name: 'breakfall_gateway_repairs_total',
    help: 'Repairs of conversations that an upstream refused: taken, refused again, or known from an earlier request',
    labelNames: ['api', 'cause', 'result'],
    registers: [this.registry],
  })
  readonly #usageLost = new Counter({
    name: 'breakfall_gateway_usage_lost_total',
    help: 'Complete answers whose stream broke before the token counts that the client had asked for',
    registers: [this.registry],
  })
  readonly #doubts = new Counter({
    name: 'breakfall_gateway_doubts_total',
    help: 'Complete answers that were probably not meant, by reason, and whether they were asked for again or passed on',
    labelNames: ['reason', 'result'],
    registers: [this.registry],
  })
  readonly #loops = new Counter({
    name: 'breakfall_gateway_loops_total',
    help: 'Requests whose last steps are the same call with the same result',
    labelNames: ['result'],
    registers: [this.registry],
  })
  readonly #unhealed = new Counter({
    name: 'breakfall_gateway_unhealed_total',
    help: 'Model requests that passed through without being healed',
    registers: [this.registry],
  })
  readonly #seconds = new Histogram({
    name: 'breakfall_gateway_request_seconds',
    help: 'Time from request to the end of the answer',
    labelNames: ['api'],
    buckets: SECONDS,
    registers: [this.registry],
  })
  readonly #firstByte = new Histogram({
    name: 'breakfall_gateway_first_byte_seconds',
    help: 'Time from request to the first byte to the client',
    labelNames: ['api'],
    buckets: SECONDS,
    registers: [this.registry],
  })

  constructor(pool: UpstreamPool, activeStreams: () => number) {
    new Gauge({
      name: 'breakfall_gateway_requests_active',
      help: 'Requests under way',
      registers: [this.registry],
      collect() {
        this.set(activeStreams())
      },
    })
    new Gauge({
      name: 'breakfall_gateway_upstream_healthy',
      help: '1 if the upstream is asked in its configured order, 0 if it is asked last',
      labelNames: ['upstream'],
      registers: [this.registry],
      collect() {
        for (const { url, isHealthy } of pool.health()) this.set({ upstream: url }, isHealthy ? 1 : 0)
      },
    })
  }

  event(api: RelayApiName, event: RelayEvent): void {
    switch (event.type) {
      case 'attempt-start':
        this.#attempts.inc({ api })
        break
      case 'attempt-failed':
        this.#faults.inc({ category: event.fault.category, after_content: String(event.afterContent) })
        if (DOUBTS.has(event.fault.reason))
          this.#doubts.inc({ reason: event.fault.reason ?? '', result: 'asked_again' })
        break
      case 'doubt':
        this.#doubts.inc({ reason: event.reason, result: 'passed' })
        break
      case 'healed':
        this.#heals.inc({ how: event.how })
        break
      case 'usage-lost':
        this.#usageLost.inc()
        break
      case 'repaired':
        break // counted once it is known whether the upstream takes it
    }
  }

  answered(api: RelayApiName, outcome: RelayOutcome, ms: number, firstByteMs: number | undefined): void {
    this.#requests.inc({ api, status: String(outcome.status) })
    this.#seconds.observe({ api }, ms / 1000)
    if (firstByteMs !== undefined) this.#firstByte.observe({ api }, firstByteMs / 1000)
    if (outcome.fault !== null && outcome.fault.class !== 'cancelled')
      this.#lost.inc({ category: outcome.fault.category })
    this.repaired(api, outcome.repairs)
  }

  repaired(api: RelayApiName, repairs: RelayOutcome['repairs']): void {
    for (const { cause, isKnown, isTaken } of repairs)
      this.#repairs.inc({ api, cause, result: isTaken ? (isKnown ? 'known' : 'taken') : 'refused' })
  }

  loop(result: 'reported' | 'stopped'): void {
    this.#loops.inc({ result })
  }

  unhealed(): void {
    this.#unhealed.inc()
  }

  passedThrough(status: number): void {
    this.#requests.inc({ api: 'other', status: String(status) })
  }
}
