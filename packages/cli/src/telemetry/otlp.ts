/**
 * Sends spans and metrics to an OpenTelemetry collector (`[telemetry] otlpEndpoint`). The SDK is an optional dependency, loaded only if an
 * endpoint is set.
 *
 * I1  A collector that is slow or gone slows nothing: spans wait in a bounded queue, and what does not fit is dropped.
 */
import { describeCause, Fault } from '@breakfall/faults'
import { version } from '../process/self.ts'

export type Telemetry = {
  /** Sends what is left, for a moment at most. */
  stop(): Promise<void>
}

/** `say` gets a sentence when the collector stops taking what is sent, and when it takes it again. */
export async function startTelemetry(
  endpoint: string | undefined,
  say: (sentence: string) => void,
): Promise<Telemetry> {
  if (endpoint === undefined) return { stop: () => Promise.resolve() }
  const { metrics, trace, spans, meters, exporters } = await load()
  process.env['OTEL_SERVICE_NAME'] ??= 'breakfall'
  process.env['OTEL_RESOURCE_ATTRIBUTES'] ??= `service.version=${version}`
  const base = endpoint.replace(/\/+$/, '')
  const watch = collectorWatch(endpoint)
  const onEnd = (signal: Signal, problem: string | undefined): void => {
    const sentence = watch(signal, problem)
    if (sentence !== undefined) say(sentence)
  }
  const exporter = watched(
    new exporters.traces.OTLPTraceExporter({ url: `${base}/v1/traces`, timeoutMillis: EXPORT_MS }),
    (problem) => onEnd('traces', problem),
  )
  const provider = new spans.TracerProvider({
    spanProcessors: [
      new spans.BatchSpanProcessor({ exporter, maxQueueSize: SPANS_MAX, scheduledDelayMillis: BATCH_MS }),
    ], // I1
  })
  const reader = new meters.PeriodicExportingMetricReader({
    exporter: watched(
      new exporters.metrics.OTLPMetricExporter({ url: `${base}/v1/metrics`, timeoutMillis: EXPORT_MS }),
      (problem) => onEnd('metrics', problem),
    ),
    exportIntervalMillis: METRICS_MS,
    exportTimeoutMillis: EXPORT_MS,
  })
  const measured = new meters.MeterProvider({ readers: [reader] })
  trace.setGlobalTracerProvider(provider)
  metrics.setGlobalMeterProvider(measured)
  void collectorProblem(endpoint).then((problem) => onEnd('traces', problem)) // a wrong endpoint is noticed before there is anything to send
  return {
    stop: async () => {
      const sent = Promise.allSettled([provider.shutdown(), measured.shutdown()])
      let timer: NodeJS.Timeout | undefined
      const enough = new Promise((resolve) => (timer = setTimeout(resolve, STOP_MS)))
      await Promise.race([sent, enough])
      clearTimeout(timer)
    },
  }
}

/** Undefined if it takes them, else why not. */
export async function collectorProblem(endpoint: string): Promise<string | undefined> {
  try {
    const response = await fetch(`${endpoint.replace(/\/+$/, '')}/v1/traces`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"resourceSpans":[]}',
      signal: AbortSignal.timeout(PROBE_MS),
    })
    await response.body?.cancel()
    return response.ok ? undefined : `HTTP ${response.status}`
  } catch (error) {
    return describeCause(error)
  }
}

/**
 * Notices when the collector of spans and metrics stops taking them, and when it takes them again. Pure.
 *
 * I1  One sentence per outage, however many exports fail in it, and one when it is over.
 */
export type Signal = 'traces' | 'metrics'

/** Returns what to say about the end of an export, if anything. `problem`: undefined if it went well. */
export function collectorWatch(endpoint: string): (signal: Signal, problem: string | undefined) => string | undefined {
  const failing = new Set<Signal>() // a collector may take traces and refuse metrics
  return (signal, problem) => {
    const wasFailing = failing.size > 0
    if (problem === undefined) failing.delete(signal)
    else failing.add(signal)
    const isFailing = failing.size > 0
    if (isFailing === wasFailing) return undefined // I1
    if (!isFailing) return `The telemetry collector at ${endpoint} takes spans and metrics again.`
    return `The telemetry collector at ${endpoint} does not take ${signal} (${problem}). Breakfall keeps working and drops what it cannot send. Start the collector, or correct [telemetry] otlpEndpoint.`
  }
}

// ---- details, in the order they are used above ----

const SPANS_MAX = 4_096 // a few megabytes

const BATCH_MS = 1_000 // people watch
const METRICS_MS = 15_000
const EXPORT_MS = 5_000
const STOP_MS = 2_000 // a collector that is gone must not hold up the exit

type Exporter<T> = {
  export(items: T, done: (result: { readonly code: number; readonly error?: Error }) => void): void
}

/** Calls `onEnd` after each export, with what went wrong. */
function watched<T, E extends Exporter<T>>(exporter: E & Exporter<T>, onEnd: (problem: string | undefined) => void): E {
  const send = exporter.export.bind(exporter)
  exporter.export = (items, done) =>
    send(items, (result) => {
      onEnd(result.code === EXPORTED ? undefined : describeCause(result.error))
      done(result)
    })
  return exporter
}

const EXPORTED = 0 // ExportResultCode.SUCCESS

async function load() {
  try {
    const [{ metrics, trace }, spans, traces, meters, exported] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/sdk-metrics'),
      import('@opentelemetry/exporter-metrics-otlp-http'),
    ])
    return { metrics, trace, spans, meters, exporters: { traces, metrics: exported } }
  } catch (cause) {
    throw new Fault('invalid_request', {
      cause,
      message: {
        happened: 'telemetry.otlpEndpoint is set, but the OpenTelemetry SDK is not installed.',
        action: 'Nothing was started.',
        advice:
          'Install Breakfall with its optional dependencies (npm install --include=optional), or remove the endpoint.',
      },
    })
  }
}

const PROBE_MS = 3_000
