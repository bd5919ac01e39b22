/**
 * How an answer is framed for its client. The relay writes server-sent events; clients of some APIs want the elements of a JSON array
 * (Gemini without `?alt=sse`), lines of JSON (Ollama) or AWS's event stream (Bedrock), and get that instead.
 */
import { eventStreamFrame, type RelaySink, type ReturnedHeaders } from '@breakfall/model/internal'
import { SseDecoder, type SseFrame } from '@breakfall/wire'
import type { ModelRoute } from './paths.ts'

/** The query for the upstream: of Gemini, the gateway always asks for events, which can be healed. */
export function searchFor(route: ModelRoute, search: string): string {
  if (!wantsArray(route, search)) return search
  const query = new URLSearchParams(search)
  query.set('alt', 'sse')
  return `?${query.toString()}`
}

/** The sink in the framing of the route. */
export function framedFor(route: ModelRoute, search: string, sink: RelaySink): RelaySink {
  if (wantsArray(route, search)) return new FramedSink(sink, JSON_ARRAY)
  if (route.api === 'ollama') return new FramedSink(sink, JSON_LINES)
  return route.api === 'bedrock-messages' ? new FramedSink(sink, EVENT_STREAM) : sink
}

// ---- details ----

const wantsArray = ({ stream, api }: ModelRoute, search: string): boolean =>
  api === 'gemini' && stream === true && new URLSearchParams(search).get('alt') !== 'sse'

type Framing = {
  readonly type: string
  readonly event: (frame: SseFrame, isFirst: boolean) => string | Buffer
  /** Keeps a silent connection alive. */
  readonly idle: string
  readonly end: (isEmpty: boolean) => string
}

const JSON_ARRAY: Framing = {
  type: 'application/json; charset=UTF-8',
  event: ({ data }, isFirst) => `${isFirst ? '[' : ',\n'}${data}`,
  idle: '\n', // white space means nothing in JSON
  end: (isEmpty) => (isEmpty ? '[]' : ']'),
}

const JSON_LINES: Framing = {
  type: 'application/x-ndjson',
  event: ({ data }) => `${data}\n`,
  idle: '', // some clients parse an empty line
  end: () => '',
}

const EVENT_STREAM: Framing = {
  type: 'application/vnd.amazon.eventstream',
  event: eventStreamFrame,
  idle: '',
  end: () => '',
}

class FramedSink implements RelaySink {
  readonly #sink: RelaySink
  readonly #framing: Framing
  readonly #events: SseDecoder
  #isStream = false
  #isEmpty = true
  #out: Buffer[] = []

  constructor(sink: RelaySink, framing: Framing) {
    this.#sink = sink
    this.#framing = framing
    this.#events = new SseDecoder({
      onEvent: (frame) => {
        this.#out.push(Buffer.from(framing.event(frame, this.#isEmpty)))
        this.#isEmpty = false
      },
    })
  }

  head(status: number, headers: ReturnedHeaders): void {
    this.#isStream = String(headers['content-type']).startsWith('text/event-stream')
    this.#sink.head(status, this.#isStream ? { ...headers, 'content-type': this.#framing.type } : headers)
  }

  write(chunk: string | Buffer): boolean {
    if (!this.#isStream) return this.#sink.write(chunk)
    this.#events.push(Buffer.from(chunk))
    const out = this.#out.length === 0 ? Buffer.from(this.#framing.idle) : Buffer.concat(this.#out)
    this.#out = []
    return out.length === 0 || this.#sink.write(out)
  }

  drained(): Promise<void> {
    return this.#sink.drained()
  }

  end(): void {
    const rest = this.#isStream ? this.#framing.end(this.#isEmpty) : ''
    if (rest !== '') this.#sink.write(rest)
    this.#sink.end()
  }

  get cut(): RelaySink['cut'] {
    return this.#sink.cut
  }
}
