/**
 * Sends spans and metrics to an OpenTelemetry collector (`[telemetry] otlpEndpoint`). The SDK is an optional dependency, loaded only if an
 * endpoint is set.
 *
 * I1  A collector that is slow or gone slows nothing: spans wait in a bounded queue, and what does not fit is dropped.
 */
import { Fault } from '@breakfall/faults'
import { version } from '../process/version.ts'

export type Telemetry = {
  /** Sends what is left, for a moment at most. */
  stop(): Promise<void>
}

export async function startTelemetry(endpoint: string | undefined): Promise<Telemetry> {
  if (endpoint === undefined) return { stop: () => Promise.resolve() }
  const { metrics, trace, spans, meters, exporters } = await load()
  process.env['OTEL_SERVICE_NAME'] ??= 'breakfall'
  process.env['OTEL_RESOURCE_ATTRIBUTES'] ??= `service.version=${version}`
  const base = endpoint.replace(/\/+$/, '')
  const exporter = new exporters.traces.OTLPTraceExporter({ url: `${base}/v1/traces`, timeoutMillis: EXPORT_MS })
  const provider = new spans.TracerProvider({
    spanProcessors: [
      new spans.BatchSpanProcessor({ exporter, maxQueueSize: SPANS_MAX, scheduledDelayMillis: BATCH_MS }),
    ], // I1
  })
  const reader = new meters.PeriodicExportingMetricReader({
    exporter: new exporters.metrics.OTLPMetricExporter({ url: `${base}/v1/metrics`, timeoutMillis: EXPORT_MS }),
    exportIntervalMillis: METRICS_MS,
    exportTimeoutMillis: EXPORT_MS,
  })
  const measured = new meters.MeterProvider({ readers: [reader] })
  trace.setGlobalTracerProvider(provider)
  metrics.setGlobalMeterProvider(measured)
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

// ---- details ----

const SPANS_MAX = 4_096 // a few megabytes
const BATCH_MS = 1_000 // people watch
const METRICS_MS = 15_000
const EXPORT_MS = 5_000
const STOP_MS = 2_000 // a collector that is gone must not hold up the exit

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
