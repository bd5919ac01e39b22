/** The span of one logical call to a model, with all its attempts, and the metrics of that call. */
import type { Usage } from '../contract/answer.ts'
import { monotonicMs } from '../lib/clock.ts'
import type { RelayApiName } from '../contract/names.ts'
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
  #lastChunkAt: number | undefined
  #perChunk: ((seconds: number) => void) | undefined
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

  /** The model said something more. The time since the call started, or since the last chunk, contains what retries took. */
  chunk(): void {
    if (this.#isOver) return
    const last = this.#lastChunkAt
    const now = (this.#lastChunkAt = monotonicMs())
    if (last !== undefined) {
      this.#perChunk ??= this.#histogram(M.perChunk)
      return this.#perChunk((now - last) / 1000)
    }
    const seconds = (now - this.#startedAt) / 1000
    this.#span.set({ [A.timeToFirstChunk]: seconds })
    this.#histogram(M.firstChunk)(seconds)
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
      [A.cacheReadTokens]: usage?.cacheReadTokens,
      [A.cacheWriteTokens]: usage?.cacheWriteTokens,
    })
    this.#span.end(error)
    this.#measure(error, { input, output })
  }

  #measure(error: string | undefined, tokens: Readonly<Record<string, number | undefined>>): void {
    const metrics = meter()
    if (metrics === undefined) return
    const common = metricAttributes({ ...this.#common, [A.errorType]: error })
    metrics.createHistogram(M.duration, SECONDS).record((monotonicMs() - this.#startedAt) / 1000, common)
    const used = metrics.createHistogram(M.tokens, TOKENS)
    for (const [type, value] of Object.entries(tokens))
      if (value !== undefined) used.record(value, { ...common, [A.tokenType]: type })
  }

  #histogram(name: string): (seconds: number) => void {
    const histogram = meter()?.createHistogram(name, SECONDS)
    const attributes = metricAttributes(this.#common)
    return (seconds) => histogram?.record(seconds, attributes)
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
  'bedrock-messages': 'aws.bedrock',
  ollama: 'ollama',
}

/** With the buckets that the conventions give: the SDK's own are for milliseconds. */
const histogram = (unit: string, limitOf: (power: number) => number) => ({
  unit,
  advice: { explicitBucketBoundaries: Array.from({ length: 14 }, (_, power) => limitOf(power)) },
})
const SECONDS = histogram('s', (power) => 2 ** power / 100)
const TOKENS = histogram('{token}', (power) => 4 ** power)

function metricAttributes(attributes: Attributes): Record<string, string | number> {
  const out: Record<string, string | number> = {}
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === 'string' || typeof value === 'number') out[name] = value
  return out
}
