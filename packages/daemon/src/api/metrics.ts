/** The metrics of `/metrics`. One registry per daemon, because one process may run two daemons. */
import { type Cost, isTerminal, type SessionEvent, type Usage } from '@breakfall/wire'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Coordination } from '@breakfall/engine'
import { storeMetrics } from './store-metrics.ts'
import { type TurnGauges, turnMetrics } from './turn-metrics.ts'

export type DaemonMetrics = {
  event(event: SessionEvent): void
  /** An answer, or a failed attempt, used this. */
  used(usage: Usage, price: Cost | undefined): void
  text(): Promise<string>
  /** How many WebSockets are open, from now on. */
  countSockets(count: () => number): void
  request(answer: { method: string; route: string; status: number; ms: number }): void
}

type Gauges = TurnGauges & {
  readonly store: Pick<Coordination, 'lease' | 'connections'>
  readonly turnsDriven: () => number
  readonly sessionsLive: () => number
}

export function createMetrics(gauges: Gauges): DaemonMetrics {
  const registers = [new Registry()]
  let socketsOpen = (): number => 0
  const events = new Counter({
    name: 'breakfall_events_total',
    help: 'Journalled events',
    labelNames: ['type'],
    registers,
  })
  const turns = new Counter({
    name: 'breakfall_turns_total',
    help: 'Turns that ended, by outcome and category',
    labelNames: ['outcome', 'category'],
    registers,
  })
  const faults = new Counter({
    name: 'breakfall_faults_total',
    help: 'Faults survived or parked on, by category and action',
    labelNames: ['category', 'action'],
    registers,
  })
  const tokens = new Counter({
    name: 'breakfall_tokens_total',
    help: 'Tokens used by answers and failed attempts, as far as they are known',
    labelNames: ['direction', 'quality'],
    registers,
  })
  const uncounted = new Counter({
    name: 'breakfall_tokens_unknown_total',
    help: 'Answers and failed attempts whose tokens are not known',
    labelNames: ['direction'],
    registers,
  })
  const cost = new Counter({
    name: 'breakfall_cost_total',
    help: 'What answers and failed attempts cost, by the configured prices',
    labelNames: ['currency', 'quality'],
    registers,
  })
  const requests = new Histogram({
    name: 'breakfall_http_request_seconds',
    help: 'Time to answer',
    labelNames: ['route', 'status'],
    buckets: [0.005, 0.025, 0.1, 0.5, 2, 10],
    registers,
  })
  for (const [name, help, read] of [
    ['breakfall_turns_driven', 'Turns that are running or waiting', gauges.turnsDriven],
    ['breakfall_sessions_live', 'Sessions in memory', gauges.sessionsLive],
    ['breakfall_websockets_open', 'Open WebSocket connections', () => socketsOpen()],
    ['breakfall_resident_bytes', 'Resident memory', () => process.memoryUsage.rss()],
  ] as const) {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  }
  const turnEvent = turnMetrics(gauges, registers)
  storeMetrics(gauges.store, registers)
  return {
    event: (event) => {
      count(event, { events, turns, faults })
      turnEvent(event)
    },
    used: (usage, price) => countUsed(usage, price, { tokens, uncounted, cost }),
    countSockets: (count) => {
      socketsOpen = count
    },
    request: ({ route, status, ms }) => requests.observe({ route, status: String(status) }, ms / 1000),
    text: () => (registers[0] as Registry).metrics(),
  }
}

// ---- details ----

function countUsed(
  { inputTokens, outputTokens }: Usage,
  price: Cost | undefined,
  { tokens, uncounted, cost }: { tokens: Counter; uncounted: Counter; cost: Counter },
): void {
  for (const [direction, { value, quality }] of [
    ['input', inputTokens],
    ['output', outputTokens],
  ] as const) {
    if (value === null) uncounted.inc({ direction })
    else tokens.inc({ direction, quality }, value)
  }
  if (price?.value != null) cost.inc({ currency: price.currency, quality: price.quality }, price.value)
}

type Counters = { readonly events: Counter; readonly turns: Counter; readonly faults: Counter }

function count(event: SessionEvent, { events, turns, faults }: Counters): void {
  events.inc({ type: event.type })
  if (event.type === 'retry') faults.inc({ category: event.fault.category, action: event.action })
  if (event.type === 'parked') faults.inc({ category: event.fault.category, action: 'park' })
  if (event.type === 'turn-end') turns.inc({ outcome: 'finished', category: 'none' })
  if (isTerminal(event) && event.type === 'turn-error') {
    turns.inc({ outcome: event.category === 'cancelled' ? 'cancelled' : 'failed', category: event.category })
  }
}
