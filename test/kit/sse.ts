/** Reads event streams by the SSE specification alone. */
import { type Json, jsonIn } from './json.ts'

export type Frame = {
  readonly id: string | undefined
  readonly event: string | undefined
  readonly data: string
  readonly json: Json
}

/** Takes text as it arrives. A block without its blank line at the end is not a frame. */
export class SseReader {
  readonly frames: Frame[] = []
  readonly comments: string[] = []
  #id: string | undefined
  #event: string | undefined
  #data: string[] = []
  #rest: string[] = []
  #isAfterCr = false

  push(text: string): void {
    const fresh = this.#isAfterCr && text.startsWith('\n') ? text.slice(1) : text // the second half of a CRLF
    if (text !== '') this.#isAfterCr = text.endsWith('\r')
    const [first = '', ...lines] = fresh.split(/\r\n|\n|\r/)
    this.#rest.push(first) // joined only at the end of a line: a huge line arrives in many pieces
    for (const line of lines) {
      this.#line(this.#rest.join(''))
      this.#rest = [line]
    }
  }

  /** Whether the stream ended inside a frame. */
  get isCut(): boolean {
    return this.#rest.join('') !== '' || this.#data.length > 0 || this.#event !== undefined || this.#id !== undefined
  }

  #line(line: string): void {
    const [, field = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (line === '') this.#flush()
    else if (line.startsWith(':')) this.comments.push(line)
    else if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id') this.#id = value
  }

  #flush(): void {
    const data = this.#data.join('\n')
    if (this.#data.length > 0) this.frames.push({ id: this.#id, event: this.#event, data, json: jsonIn(data) })
    this.#id = undefined
    this.#event = undefined
    this.#data = []
  }
}

/** The frames and comments of a whole event stream. */
export function framesIn(stream: string): SseReader {
  const reader = new SseReader()
  reader.push(stream)
  return reader
}

/** The frames of a response body, as they arrive. */
export async function* framesOf(
  body: AsyncIterable<Uint8Array | string> | Iterable<string>,
): AsyncGenerator<Frame, void> {
  const reader = new SseReader()
  const decoder = new TextDecoder()
  for await (const piece of body) {
    reader.push(typeof piece === 'string' ? piece : decoder.decode(piece, { stream: true }))
    yield* reader.frames.splice(0)
  }
}
