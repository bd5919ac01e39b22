/** The metrics of `/metrics`. One registry per daemon, because one process may run two daemons. */
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export type DaemonMetrics = {
  event(event: SessionEvent): void
  text(): Promise<string>
  request(answer: { method: string; route: string; status: number; ms: number }): void
}

type Gauges = {
  readonly turnsDriven: () => number
  readonly sessionsLive: () => number
  readonly socketsOpen: () => number
}

export function createMetrics(gauges: Gauges): DaemonMetrics {
  const registers = [new Registry()]
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
    ['breakfall_websockets_open', 'Open WebSocket connections', gauges.socketsOpen],
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
  return {
    event: (event) => count(event, { events, turns, faults }),
    request: ({ route, status, ms }) => requests.observe({ route, status: String(status) }, ms / 1000),
    text: () => (registers[0] as Registry).metrics(),
  }
}

// ---- details ----

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
