/**
 * Server-sent events, encoded and decoded for every service and client. Only the fault proxy splits them itself: it keeps
 * the exact bytes.
 *
 * Decoding is bounded (an endless line is a fault), keeps ids and comments (a comment shows that the sender is alive), accepts
 * bytes cut anywhere, even inside a character.
 */
import { type ReportedFault, reportedFault } from '@breakfall/faults/caller'
import { createParser, type EventSourceParser } from 'eventsource-parser'
import { type PlainEventHandler, readPlainEvents } from './plain-events.ts'
import type { SseFrame, SseRead } from './sse-frame.ts'

/** Encodes one event. Line breaks in the data become several `data:` lines, as the format requires. */
export function encodeSse(frame: SseFrame): string {
  let out = ''
  if (frame.event !== undefined) out += `event: ${oneLine(frame.event)}\n`
  if (frame.id !== undefined) out += `id: ${oneLine(frame.id)}\n`
  const { data } = frame
  if (!data.includes('\n') && !data.includes('\r')) return `${out}data: ${data}\n\n` // always true for JSON
  for (const line of data.split(/\r\n|\r|\n/)) out += `data: ${line}\n`
  return out + '\n'
}

/** A line that readers skip and that keeps the connection alive. */
export function encodeSseComment(comment: string): string {
  return `: ${oneLine(comment)}\n\n`
}

export type SseDecoderOptions = {
  readonly onEvent: (frame: SseFrame) => void
  readonly onComment?: ((comment: string) => void) | undefined
  /** Called with what was read and the start of an event in it. May read events itself, and returns the end of the last one. */
  readonly onRun?: ((read: SseRead, from: number) => number) | undefined
  /** Longest unfinished event that is buffered. */
  readonly bufferCharsMax?: number | undefined
}

export const SSE_BUFFER_CHARS_MAX = 16 * 1024 * 1024

export class SseDecoder {
  readonly #handler: PlainEventHandler
  readonly #parser: EventSourceParser
  readonly #text = new TextDecoder()
  #tail = ''
  /** `end` has ended a line. If the body goes on with a line feed, that belongs to it. */
  #isLineEnded = false
  #overflow: ReportedFault | undefined

  constructor(options: SseDecoderOptions) {
    const bufferCharsMax = options.bufferCharsMax ?? SSE_BUFFER_CHARS_MAX
    const { onEvent, onComment } = options
    this.#handler = options
    this.#parser = createParser({
      onEvent,
      maxBufferSize: bufferCharsMax,
      onError: (error) => {
        if (error.type !== 'max-buffer-size-exceeded') return // an unknown field or a bad retry is skipped, as the format requires
        this.#overflow = reportedFault(
          'payload_too_large',
          {
            error: `The body is larger than allowed (${bufferCharsMax} characters in one event).`,
            errorRaw: error.message,
          },
          error,
        )
      },
      ...(onComment === undefined ? {} : { onComment }),
    })
  }

  /** Throws a `payload_too_large` fault if one event exceeds the limit. */
  push(bytes: Uint8Array | string): void {
    this.#throwOverflow()
    let text = typeof bytes === 'string' ? bytes : this.#text.decode(bytes, { stream: true })
    if (text === '') return
    if (this.#isLineEnded && text.startsWith('\n')) text = text.slice(1)
    this.#isLineEnded = false
    const tail = this.#tail
    this.#tail = text.length >= TAIL_CHARS ? text.slice(-TAIL_CHARS) : (tail + text).slice(-TAIL_CHARS)
    if (text.includes('\r')) return this.#parse(text)
    const start = eventStart(text, tail)
    this.#parse(text.slice(0, start))
    const read = { text, bytes: typeof bytes === 'string' ? undefined : bytes }
    this.#parse(text.slice(readPlainEvents(read, start, this.#handler)))
  }

  /**
   * The body is over, so no line feed follows a carriage return. An event without its empty line is not dispatched. A body that was
   * cut may go on from here.
   */
  end(): void {
    if (!this.#tail.endsWith('\r')) return
    this.push('\n')
    this.#isLineEnded = true
  }

  #parse(text: string): void {
    if (text === '') return
    this.#parser.feed(text)
    this.#throwOverflow()
  }

  #throwOverflow(): void {
    if (this.#overflow !== undefined) throw this.#overflow
  }
}

// ---- details ----

const TAIL_CHARS = 4

/** Where the first event begins that begins in this text. `tail`: the end of the text before it. */
function eventStart(text: string, tail: string): number {
  if (tail === '' || tail.endsWith('\n\n')) return 0
  if (tail.endsWith('\n') && text.startsWith('\n')) return 1
  const end = text.indexOf('\n\n')
  return end === -1 ? text.length : end + 2
}

const oneLine = (text: string): string => text.replace(/[\r\n\0]+/g, ' ')
