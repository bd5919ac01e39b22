/**
 * The Responses API over a WebSocket, which codex and Copilot prefer. Each message is one request, and the gateway asks its upstream over
 * HTTP, where an answer can be healed.
 *
 * I1  Nothing of a conversation is kept here. A request that continues an earlier one is refused as the API does when it has lost that one,
 *     and the client sends the whole conversation.
 * I2  An answer that failed after its start ends the connection: the client sees that it is not complete.
 */
import { randomUUID } from 'node:crypto'
import { JsonFields, type MemoryShare, type RelaySink, type ReturnedHeaders } from '@breakfall/model/internal'
import { SseDecoder } from '@breakfall/wire'
import { drained, type SinkWatching } from './http-sink.ts'
import { CLOSE, type WebSocketConnection } from './web-socket.ts'

/** A message of the client. */
export type SocketRequest =
  /** The body that the same request has over HTTP. */
  | { readonly kind: 'ask'; readonly body: readonly Buffer[] }
  /** The client prepares what it will ask, and wants nothing yet. */
  | { readonly kind: 'warm-up' }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }

export async function requestIn(message: readonly Buffer[], memory: MemoryShare): Promise<SocketRequest> {
  const found = new JsonFields(FIELDS, memory)
  for (const block of message) {
    found.push(block)
    await new Promise((resolve) => setImmediate(resolve)) // a message may have many megabytes
  }
  const { values: json = {}, places } = found.done() ?? {}
  if (json['type'] !== 'response.create') return refused('invalid_request', 'A message here is a response.create.')
  if (typeof json['previous_response_id'] === 'string')
    return refused('previous_response_not_found', 'The gateway keeps no responses. Send the whole conversation.') // I1
  if (json['generate'] === false) return { kind: 'warm-up' }
  const [first = Buffer.alloc(0), ...more] = message
  const start = TYPE_FIRST.exec(first.toString('latin1', 0, 256))?.[0]
  // The bytes stay: parsed and written again, `1.0` would be 1.
  if (start !== undefined && places?.size === 1)
    return { kind: 'ask', body: [Buffer.from('{"stream":true,'), first.subarray(start.length), ...more] }
  if (message.reduce((bytes, block) => bytes + block.length, 0) > PARSED_BYTES_MAX)
    return refused('invalid_request', 'Put "type" first in a message of this size, and leave stream out.')
  const {
    type: _type,
    generate: _generate,
    stream_id: _id,
    previous_response_id: _previous,
    ...body
  } = objectIn(Buffer.concat(message).toString()) ?? {}
  return { kind: 'ask', body: [Buffer.from(JSON.stringify({ ...body, stream: true }))] }
}

/** What a client that prepares gets: a response with nothing in it. */
export function warmUpEvents(): readonly string[] {
  const response = { id: `resp_${randomUUID().replaceAll('-', '')}`, object: 'response', output: [] }
  return [
    JSON.stringify({ type: 'response.created', sequence_number: 0, response: { ...response, status: 'in_progress' } }),
    JSON.stringify({
      type: 'response.completed',
      sequence_number: 1,
      response: { ...response, status: 'completed', usage: NO_USAGE },
    }),
  ]
}

export const errorMessage = (status: number, error: unknown, headers: ReturnedHeaders = {}): string =>
  JSON.stringify({ type: 'error', status, error, headers })

/** The headers of the upgrade, as those of a request over HTTP. */
export function requestHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const kept = Object.entries(headers).filter(
    ([name]) => !name.startsWith('sec-websocket-') && name !== 'upgrade' && name !== 'connection',
  )
  const beta = (headers['openai-beta'] ?? '')
    .split(/\s*,\s*/)
    .filter((one) => one !== '' && !one.startsWith('responses_websockets'))
  const { 'openai-beta': _beta, ...rest } = Object.fromEntries(kept)
  const named = beta.length === 0 ? {} : { 'openai-beta': beta.join(', ') }
  return { ...rest, ...named, 'content-type': 'application/json', accept: 'text/event-stream' }
}

export type SocketSinkOptions = SinkWatching & { readonly clientStuckMs: number }

/** Each event of the answer is a message, and an answer without events is an error. */
export class SocketSink implements RelaySink {
  readonly #connection: WebSocketConnection
  readonly #options: SocketSinkOptions
  readonly #events: SseDecoder
  #status = 0
  #headers: ReturnedHeaders = {}
  #body = ''
  #isAhead = true

  constructor(connection: WebSocketConnection, options: SocketSinkOptions) {
    this.#connection = connection
    this.#options = options
    this.#events = new SseDecoder({
      onEvent: ({ data }) => {
        this.#isAhead = connection.send(data)
      },
    })
  }

  head(status: number, headers: ReturnedHeaders): void {
    this.#options.onFirstByte()
    this.#status = status
    this.#headers = headers
  }

  write(chunk: string | Buffer): boolean {
    this.#options.onBytes(chunk.length)
    if (this.#status === 200) this.#events.push(Buffer.from(chunk))
    else this.#body += chunk.toString()
    return this.#isAhead
  }

  drained(): Promise<void> {
    this.#isAhead = true
    return drained(this.#connection.socket, this.#options.clientStuckMs)
  }

  end(): void {
    if (this.#status === 200) return
    const error = objectIn(this.#body)?.['error'] ?? { message: this.#body.slice(0, 4096) }
    this.#connection.send(errorMessage(this.#status, error, this.#headers))
  }

  cut = (): void => this.#connection.close(CLOSE.failed) // I2
}

// ---- details ----

const TYPE_FIRST = /^\s*\{\s*"type"\s*:\s*"response\.create"\s*,/
/** What says how a message is to be taken. All but the last have no meaning over HTTP. */
const FIELDS = new Map(
  ['type', 'previous_response_id', 'generate', 'stream_id', 'stream'].map((field) => [field, { bytesMax: 1024 }]),
)
const PARSED_BYTES_MAX = 4 * 1024 * 1024
const NO_USAGE = { input_tokens: 0, output_tokens: 0, total_tokens: 0 }

const refused = (code: string, message: string): SocketRequest => ({ kind: 'refused', code, message })

function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null && !Array.isArray(json) ? { ...json } : undefined
  } catch {
    return undefined // the reply says what a message is
  }
}
