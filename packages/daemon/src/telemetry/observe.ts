/** What the daemon does with every committed event besides sending it to readers: counts it, logs it and adds it to the turn's trace. */
import type { Logger } from 'pino'
import type { DaemonMetrics } from '../api/metrics.ts'
import type { Ports } from '../engine/ports.ts'
import { logEvent } from '../event-log.ts'
import type { TurnTraces } from './turn-traces.ts'

export const observing =
  (metrics: () => DaemonMetrics, log: Logger, traces: TurnTraces): Ports['onEvent'] =>
  (event, traceparent) => {
    metrics().event(event)
    logEvent(log, event)
    traces.event(event, traceparent)
  }
