/**
 * Gemini streams events with `?alt=sse`, and without it the elements of one JSON array. The gateway always asks the upstream
 * for events, which can be healed, and writes the array itself for clients that want one.
 */
import type { RelaySink, ReturnedHeaders } from '@breakfall/model/internal'
import { SseDecoder } from '@breakfall/wire'
import type { ModelRoute } from './paths.ts'

export const wantsArray = ({ stream, api }: ModelRoute, search: string): boolean =>
  api === 'gemini' && stream === true && new URLSearchParams(search).get('alt') !== 'sse'

/** The query for the upstream. */
export function searchFor(route: ModelRoute, search: string): string {
  if (!wantsArray(route, search)) return search
  const query = new URLSearchParams(search)
  query.set('alt', 'sse')
  return `?${query.toString()}`
}

export class JsonArraySink implements RelaySink {
  readonly #sink: RelaySink
  readonly #events: SseDecoder
  #isStream = false
  #isOpen = false
  #out = ''

  constructor(sink: RelaySink) {
    this.#sink = sink
    this.#events = new SseDecoder({
      onEvent: ({ data }) => {
        this.#out += `${this.#isOpen ? ',\n' : '['}${data}`
        this.#isOpen = true
      },
    })
  }

  head(status: number, headers: ReturnedHeaders): void {
    this.#isStream = String(headers['content-type']).startsWith('text/event-stream')
    const type = { 'content-type': 'application/json; charset=UTF-8' }
    this.#sink.head(status, this.#isStream ? { ...headers, ...type } : headers)
  }

  write(chunk: string | Buffer): boolean {
    if (!this.#isStream) return this.#sink.write(chunk)
    this.#events.push(Buffer.from(chunk))
    const out = this.#out
    this.#out = ''
    return this.#sink.write(out === '' ? '\n' : out) // a ping: white space means nothing in JSON
  }

  drained(): Promise<void> {
    return this.#sink.drained()
  }

  end(): void {
    if (this.#isStream) this.#sink.write(this.#isOpen ? ']' : '[]')
    this.#sink.end()
  }

  get cut(): RelaySink['cut'] {
    return this.#sink.cut
  }
}
