/** The model server: sends each request what its case says, byte for byte, and keeps what it sent. */
import { createServer, type Server, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Frame, Json, Script } from './case.ts'
import { parsed, textIn } from './json.ts'
import { compressed, encoded, writesOf } from './wire.ts'

export type Asked = {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Json
}

/** One response. */
export type Sending = Pick<Script, 'whole' | 'status' | 'style' | 'cut'> & {
  readonly frames: readonly Frame[]
  /** Of a refusal. */
  readonly message?: string
}

/** Named by the header that the client sends with each request. */
export const STREAM_ID = 'x-fuzz-stream'

export class Upstream {
  readonly #server: Server
  readonly #streams = new Map<string, (asked: Asked) => Sending | undefined>()
  readonly #open = new Set<Socket>()
  port = 0

  constructor() {
    this.#server = createServer({ noDelay: true }, (socket) => this.#serve(socket))
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.port = (this.#server.address() as AddressInfo).port
    return this
  }

  /** `answer` is called for each request of this stream. */
  serve(id: string, answer: (asked: Asked) => Sending | undefined): void {
    this.#streams.set(id, answer)
  }

  forget(id: string): void {
    this.#streams.delete(id)
  }

  close(): void {
    for (const socket of this.#open) socket.destroy()
    this.#server.close()
  }

  // ---- details ----

  #serve(socket: Socket): void {
    this.#open.add(socket)
    socket.on('error', () => socket.destroy()) // the gateway gave this attempt up
    socket.once('close', () => this.#open.delete(socket))
    let bytes: Buffer = Buffer.alloc(0)
    socket.on('data', (more: Buffer) => {
      bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more])
      for (let request = requestIn(bytes); request !== undefined; request = requestIn(bytes)) {
        bytes = bytes.subarray(request.size)
        this.#answer(socket, request.asked)
      }
    })
  }

  #answer(socket: Socket, asked: Asked): void {
    const sending = this.#streams.get(asked.headers[STREAM_ID] ?? '')?.(asked)
    if (sending === undefined)
      socket.write('HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}')
    else send(socket, sending)
  }
}

export function isPrefilled(body: Json): string | undefined {
  const messages = body['messages']
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined
  const message = typeof last === 'object' && last !== null ? (last as Json) : {}
  return message['role'] === 'assistant' ? textIn(message, 'content') : undefined
}

/** What arrives before the cut. Frames that end there were sent in full. */
export function deliveredFrames({ frames, cut, style, whole, status = 200 }: Sending): readonly Frame[] {
  if (status !== 200) return []
  if (cut === undefined) return frames
  if (whole !== undefined) return []
  if (style.encoding !== '') return frames // how much of it can be read depends on the compression
  const { starts, bytes } = encoded(frames, style)
  // A carriage return ends the empty line of an event, whether or not a line feed follows.
  const isThere = (end: number): boolean =>
    end <= cut.at || (end - 1 === cut.at && bytes.toString('latin1', end - 2, end) === '\r\n')
  const sent = frames.filter((_, at) => isThere(starts[at + 1] ?? bytes.length))
  return cut.how === 'error' ? [...sent, cut.frame] : sent
}

// ---- details ----

function requestIn(bytes: Buffer): { readonly size: number; readonly asked: Asked } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const size = end + 4 + Number(headers['content-length'] ?? 0)
  if (bytes.length < size) return undefined
  const [method = '', path = ''] = first.split(' ')
  const text = bytes.toString('utf8', end + 4, size)
  return { size, asked: { method, path, headers, body: text === '' ? {} : parsed(text) } }
}

const TYPES = {
  events: 'text/event-stream',
  lines: 'application/x-ndjson',
  aws: 'application/vnd.amazon.eventstream',
} as const

function send(socket: Socket, sending: Sending): void {
  const { style, whole, cut, status = 200 } = sending
  if (status !== 200) {
    const body = JSON.stringify({ error: { message: sending.message ?? 'not now', type: 'server_error' } })
    socket.write(
      `HTTP/1.1 ${status} No\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    return
  }
  const { bytes: plain, starts } =
    whole === undefined ? encoded(sending.frames, style) : { bytes: Buffer.from(JSON.stringify(whole)), starts: [] }
  let body = compressed(plain, style)
  if (cut !== undefined) {
    const to = Math.round((Math.min(cut.at, plain.length) / Math.max(1, plain.length)) * body.length)
    body =
      cut.how === 'error'
        ? compressed(
            Buffer.concat([
              plain.subarray(0, cut.at),
              encoded([cut.frame], { ...style, extras: [], bom: false }).bytes,
            ]),
            style,
          )
        : body.subarray(0, to)
  }
  const isProper = cut === undefined || cut.how === 'clean' || cut.how === 'error'
  // A cut must not look like the end of the body where the end of the connection is one, nor an early end like a cut.
  const isChunked =
    style.framing === 'chunked' || (style.framing === 'close' ? !isProper : cut !== undefined && isProper)
  const isClosed = !isChunked && style.framing === 'close'
  const length = compressed(plain, style).length
  const head = [
    'HTTP/1.1 200 OK',
    `content-type: ${whole === undefined ? TYPES[style.shape ?? 'events'] : 'application/json'}`,
    ...(style.encoding === '' ? [] : [`content-encoding: ${style.encoding}`]),
    isChunked ? 'transfer-encoding: chunked' : isClosed ? 'connection: close' : `content-length: ${length}`,
  ]
  const writes = writesOf(body, style, style.encoding === '' ? starts : [])
  let at = -1
  const next = (): void => {
    if (socket.destroyed) return
    at++
    const bytes = writes[at]
    const before = at === 0 || writes.length === 0 ? `${head.join('\r\n')}\r\n\r\n` : ''
    const isLast = at >= writes.length - 1
    const pieces: (Buffer | string)[] = [before]
    if (bytes !== undefined) pieces.push(...(isChunked ? [`${bytes.length.toString(16)}\r\n`, bytes, '\r\n'] : [bytes]))
    if (isLast && isProper && isChunked) pieces.push('0\r\n\r\n')
    const all = Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)))
    if (!isLast) {
      socket.write(all)
      setImmediate(next)
    } else if (isProper && !isClosed) socket.write(all)
    else if (cut?.how === 'stall') socket.write(all)
    else if (cut?.how === 'reset') socket.write(all, () => setImmediate(() => socket.resetAndDestroy()))
    else socket.end(all)
  }
  next()
}
