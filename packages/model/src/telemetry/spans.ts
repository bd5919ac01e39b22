/**
 * Spans through `@opentelemetry/api`, if the program has it. The program chooses the SDK; without one, or without the package, a span
 * costs next to nothing and passes on the trace that it was given.
 *
 * I1  Only names, numbers and ids become attributes: never a prompt, a key, an answer or the output of a tool.
 * I2  Nothing here throws: telemetry must not fail what it observes.
 */
import { createRequire } from 'node:module'
import type * as Otel from '@opentelemetry/api'
import { TELEMETRY } from './names.ts'

export type Attributes = Readonly<Record<string, string | number | readonly string[] | undefined>>

/** A span, as far as others need it. */
export type Span = {
  /** The W3C header that makes others children of this span. */
  readonly traceparent: string | undefined
  set(attributes: Attributes): void
  event(name: string, attributes: Attributes): void
  /** `error`: the category of the fault it ended with. Only the first call counts. */
  end(error?: string): void
}

export type SpanOptions = {
  readonly kind: 'client' | 'internal'
  readonly attributes?: Attributes
  /** A `traceparent` header. Default: the span that is active in this program, if any. */
  readonly parent?: string | undefined
  /** The span starts a new trace. */
  readonly root?: boolean
  /** `traceparent` headers of spans in other traces that this one continues. */
  readonly links?: readonly (string | undefined)[]
}

export function startSpan(name: string, options: SpanOptions): Span {
  const otel = api()
  if (otel === undefined) return passing(options.parent)
  const { kind, attributes = {}, root = false } = options
  const parent = contextOf(options.parent)
  const links = (options.links ?? []).flatMap((header) => {
    const context = contextOf(header)
    return context === undefined ? [] : [{ context }]
  })
  const active = otel.context.active()
  return new RealSpan(
    otel.trace.getTracer(TELEMETRY.scope, TELEMETRY.version).startSpan(
      name,
      {
        kind: kind === 'client' ? otel.SpanKind.CLIENT : otel.SpanKind.INTERNAL,
        attributes: defined(attributes),
        links,
        root,
      },
      parent === undefined ? active : otel.trace.setSpanContext(active, parent),
    ),
  )
}

/** The value if it is a usable `traceparent` header. */
export const traceparentIn = (value: unknown): string | undefined =>
  typeof value === 'string' && contextOf(value) !== undefined ? value : undefined

/** The API's meter, for the metrics of the same program. */
export const meter = (): Otel.Meter | undefined => api()?.metrics.getMeter(TELEMETRY.scope, TELEMETRY.version)

// ---- details, in the order they are used above ----

let loaded: { readonly otel: typeof Otel | undefined } | undefined

/** Optional, so it cannot be imported. Every copy of it in a program shares one global SDK. */
function api(): typeof Otel | undefined {
  if (loaded !== undefined) return loaded.otel
  try {
    const otel: typeof Otel = createRequire(import.meta.url)('@opentelemetry/api')
    loaded = { otel }
  } catch {
    loaded = { otel: undefined } // not installed: no spans
  }
  return loaded.otel
}

const passing = (traceparent: string | undefined): Span => ({
  traceparent,
  set: () => undefined,
  event: () => undefined,
  end: () => undefined,
})

const HEADER = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-|$)/

function contextOf(header: string | undefined): Otel.SpanContext | undefined {
  const [, traceId = '', spanId = '', flags = ''] = HEADER.exec(header ?? '') ?? []
  if (traceId === '' || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
}

function defined(attributes: Attributes): Otel.Attributes {
  const out: Otel.Attributes = {}
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined) out[name] = typeof value === 'object' ? [...value] : value
  return out
}

class RealSpan implements Span {
  readonly #span: Otel.Span

  constructor(span: Otel.Span) {
    this.#span = span
  }

  get traceparent(): string | undefined {
    const { traceId, spanId, traceFlags } = this.#span.spanContext()
    return traceparentIn(`00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`)
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(defined(attributes))
  }

  event(name: string, attributes: Attributes): void {
    this.#span.addEvent(name, defined(attributes))
  }

  end(error?: string): void {
    if (!this.#span.isRecording()) return
    if (error !== undefined) {
      this.#span.setAttribute(TELEMETRY.attributes.errorType, error)
      this.#span.setStatus({ code: 2, message: error })
    }
    this.#span.end()
  }
}
