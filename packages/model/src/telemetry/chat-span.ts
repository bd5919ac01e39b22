/** The span of one logical call to a model, with all its attempts, and the metrics of that call. */
import type { Usage } from '../answer.ts'
import { monotonicMs } from '../clock.ts'
import type { RelayApiName } from '../names.ts'
import { TELEMETRY } from './names.ts'
import { type Attributes, meter, type Span, startSpan } from './spans.ts'

const { attributes: A, metrics: M, operations, spans } = TELEMETRY

export type ChatCall = {
  readonly api: RelayApiName
  readonly model: string
  readonly baseUrl: string
  /** A `traceparent` header. Default: the span that is active in this program. */
  readonly parent?: string | undefined
  readonly attributes?: Attributes
}

export type ChatEnd = {
  readonly finish?: string | undefined
  readonly usage?: Usage | undefined
  /** The category of the fault it ended with. */
  readonly error?: string | undefined
}

export class ChatSpan {
  readonly #span: Span
  readonly #common: Attributes
  readonly #startedAt = monotonicMs()
  #hasChunk = false
  #isOver = false
  /** The wait before the attempt that comes next. */
  backoffMs: number | undefined

  constructor({ api, model, baseUrl, parent, attributes = {} }: ChatCall) {
    this.#common = {
      [A.operation]: operations.chat,
      [A.provider]: PROVIDERS[api],
      [A.requestModel]: model,
      ...serverOf(baseUrl),
    }
    this.#span = startSpan(`${spans.chat} ${model}`, {
      kind: 'client',
      attributes: { ...this.#common, ...attributes },
      parent,
    })
  }

  get traceparent(): string | undefined {
    return this.#span.traceparent
  }

  /** The model said something. Only the first call counts. */
  chunk(): void {
    if (this.#hasChunk || this.#isOver) return
    this.#hasChunk = true
    const seconds = this.#seconds
    this.#span.set({ [A.timeToFirstChunk]: seconds })
    meter()?.createHistogram(M.firstChunk, { unit: 's' }).record(seconds, metricAttributes(this.#common))
  }

  end({ finish, usage, error }: ChatEnd): void {
    if (this.#isOver) return
    this.#isOver = true
    const input = usage?.inputTokens.value ?? undefined
    const output = usage?.outputTokens.value ?? undefined
    this.#span.set({
      [A.finishReasons]: finish === undefined ? undefined : [finish],
      [A.inputTokens]: input,
      [A.outputTokens]: output,
    })
    this.#span.end(error)
    this.#measure(error, { input, output })
  }

  #measure(error: string | undefined, tokens: Readonly<Record<string, number | undefined>>): void {
    const metrics = meter()
    if (metrics === undefined) return
    const common = metricAttributes({ ...this.#common, [A.errorType]: error })
    metrics.createHistogram(M.duration, { unit: 's' }).record(this.#seconds, common)
    const used = metrics.createHistogram(M.tokens, { unit: '{token}' })
    for (const [type, value] of Object.entries(tokens))
      if (value !== undefined) used.record(value, { ...common, [A.tokenType]: type })
  }

  get #seconds(): number {
    return (monotonicMs() - this.#startedAt) / 1000
  }
}

/** Host and port of a server. Nothing else of its address: a query may hold a key. */
export function serverOf(address: string): Attributes {
  if (!URL.canParse(address)) return {}
  const { hostname, port, protocol } = new URL(address)
  return {
    [A.serverAddress]: hostname,
    [A.serverPort]: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
  }
}

// ---- details ----

/** The API that is spoken. Whose server it is cannot be known. */
const PROVIDERS: Readonly<Record<RelayApiName, string>> = {
  'openai-chat': 'openai',
  'openai-responses': 'openai',
  'anthropic-messages': 'anthropic',
  gemini: 'gcp.gemini',
}

function metricAttributes(attributes: Attributes): Record<string, string | number> {
  const out: Record<string, string | number> = {}
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === 'string' || typeof value === 'number') out[name] = value
  return out
}
