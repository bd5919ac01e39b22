/** How a body is cut into events. Server-sent events are read as they are; any other framing is made into them first. */
import { EventStreamReader } from '../lib/event-stream.ts'

/** Makes server-sent events of what arrives. `end`: of what is left when the body is over. */
export type Reframer = { push(chunk: Buffer): string; end(): string }

/** Undefined for server-sent events, and for what does not say what it is. */
export function reframerFor(contentType: string): Reframer | undefined {
  if (contentType.includes('vnd.amazon.eventstream')) return new EventStreamReader()
  return isJsonLines(contentType) ? new JsonLinesReader() : undefined
}

export const isJsonLines = (contentType: string): boolean => /ndjson|jsonl|json-lines/.test(contentType)

// ---- details ----

/** Each line is an event. A line without its end is none until the body is over. */
class JsonLinesReader implements Reframer {
  readonly #text = new TextDecoder()
  #isInLine = false

  push(chunk: Buffer): string {
    return this.#lines(this.#text.decode(chunk, { stream: true }))
  }

  end(): string {
    const rest = this.#lines(this.#text.decode())
    return this.#isInLine ? `${rest}\n\n` : rest
  }

  #lines(text: string): string {
    let out = ''
    for (let from = 0; from < text.length;) {
      const end = text.indexOf('\n', from)
      const line = text.slice(from, end === -1 ? text.length : end).replaceAll('\r', '')
      if (line !== '') {
        out += this.#isInLine ? line : `data: ${line}`
        this.#isInLine = true
      }
      if (end === -1) return out
      if (this.#isInLine) out += '\n\n'
      this.#isInLine = false
      from = end + 1
    }
    return out
  }
}
