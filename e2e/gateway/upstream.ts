/** A model server made of nothing but a TCP socket: it says byte for byte what a test tells it to, and misbehaves on demand. */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** One request as its bytes came, and the socket to answer on. */
export type Talk = {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly rawHead: string
  readonly body: Buffer
  readonly socket: Socket
  /** When the other side has left, or the socket has ended in any other way. */
  readonly gone: Promise<void>
}

/** What the upstream does with one request. */
export type Play = (talk: Talk) => void | Promise<void>

/** Requests are told apart by the word `play-N` anywhere in them; each has its own list of plays. */
export class Upstream implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #plays = new Map<string, Play[]>()
  readonly #seen = new Map<string, Talk[]>()
  readonly #arrivals = new Map<string, (() => void)[]>()
  #names = 0
  /** Connections accepted so far. */
  connections = 0

  readonly #early: boolean

  /** `early` answers when the head is there, whatever is to come of the body. */
  constructor(options: { readonly early?: boolean } = {}) {
    this.#early = options.early === true
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#serve(socket))
  }

  static async start(options: { readonly early?: boolean; readonly port?: number } = {}): Promise<Upstream> {
    const upstream = new Upstream(options)
    upstream.#server.listen(options.port ?? 0, '127.0.0.1')
    await once(upstream.#server, 'listening')
    return upstream
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }
  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`
  }
  get open(): number {
    return this.#sockets.size
  }

  /** A new name with these plays, one for each request; a request beyond them gets 418, which nobody tries again. */
  plays(...plays: readonly Play[]): string {
    const name = `play-${++this.#names}`
    this.#plays.set(name, [...plays])
    this.#seen.set(name, [])
    return name
  }

  seen(name: string): readonly Talk[] {
    return this.#seen.get(name) ?? []
  }

  /** The nth request (from 1) of that name, once it is here. */
  async arrived(name: string, count = 1): Promise<Talk> {
    while (this.seen(name).length < count)
      await new Promise<void>((resolve) => {
        this.#arrivals.set(name, [...(this.#arrivals.get(name) ?? []), resolve])
      })
    return this.seen(name)[count - 1] as Talk
  }

  #serve(socket: Socket): void {
    this.connections++
    this.#sockets.add(socket)
    const gone = new Promise<void>((resolve) => {
      socket.once('close', () => {
        this.#sockets.delete(socket)
        resolve()
      })
      socket.once('end', resolve)
    })
    socket.on('error', () => socket.destroy()) // a reset by the other side; `close` tells it
    socket.on('end', () => socket.end())
    let held: Buffer[] = []
    let missing = 0
    let turn = Promise.resolve()
    socket.on('data', (bytes: Buffer) => {
      held.push(bytes)
      missing -= bytes.length
      if (missing > 0) return // joining a huge body at every piece would be quadratic
      let rest = Buffer.concat(held)
      for (let next = requestIn(rest, this.#early); next; next = requestIn(rest, this.#early)) {
        rest = rest.subarray(next.bytes)
        const talk: Talk = { ...next, socket, gone }
        turn = turn.then(async () => this.#answer(talk)).catch((error: unknown) => void socket.destroy(error as Error))
      }
      held = rest.length === 0 ? [] : [rest]
      missing = missingOf(rest)
    })
  }

  async #answer(talk: Talk): Promise<void> {
    const name = /play-\d+/.exec(talk.rawHead + talk.body.subarray(0, 4096).toString('latin1'))?.[0] ?? 'play-0'
    this.#seen.set(name, [...this.seen(name), talk])
    for (const resolve of this.#arrivals.get(name)?.splice(0) ?? []) resolve()
    const play = this.#plays.get(name)?.shift() ?? status(418, { error: { message: `${name} has no more plays` } })
    await play(talk)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

// ---- plays ----

export const STREAM_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n'
const LAST_CHUNK = '0\r\n\r\n'

/** These bytes, whatever they are; then whatever `then` does. */
export function bytes(...pieces: readonly (string | Buffer)[]): Play {
  return async ({ socket }) => {
    for (const piece of pieces) await say(socket, piece)
  }
}
/** One after another. */
export function both(...plays: readonly Play[]): Play {
  return async (talk) => {
    for (const play of plays) await play(talk)
  }
}
export const reset: Play = async ({ socket }) => {
  await new Promise((resolve) => setImmediate(resolve)) // what was written leaves first
  socket.resetAndDestroy()
}
export const fin: Play = ({ socket }) => void socket.end()
/** Says nothing more until the other side leaves. */
export const silence: Play = async ({ gone }) => gone

export function streamHead(headers: Readonly<Record<string, string>> = {}): Play {
  return bytes(`${STREAM_HEAD}${headerLines(headers)}\r\n`)
}
export function chunks(...pieces: readonly (string | Buffer)[]): Play {
  return bytes(...pieces.map(chunk))
}
/** A whole event stream, properly ended. What its frames prove is the frames' business. */
export function stream(...frames: readonly (string | Buffer)[]): Play {
  return both(streamHead(), chunks(...frames), bytes(LAST_CHUNK))
}
/** An event stream whose connection is reset after these frames. */
export function cut(...frames: readonly string[]): Play {
  return both(streamHead(), chunks(...frames), reset)
}
/** An event stream whose connection ends without the last chunk. */
export function half(...frames: readonly string[]): Play {
  return both(streamHead(), chunks(...frames), fin)
}
/** An event stream that goes silent after these frames. */
export function stall(...frames: readonly string[]): Play {
  return both(streamHead(), chunks(...frames), silence)
}
/** An answer with a length. */
export function status(code: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Play {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const all = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)), ...headers }
  return bytes(`HTTP/1.1 ${code} Whatever\r\n${headerLines(all)}\r\n${text}`)
}

export function chunk(piece: string | Buffer): Buffer {
  const payload = Buffer.from(piece as string)
  return Buffer.concat([Buffer.from(`${payload.length.toString(16)}\r\n`), payload, Buffer.from('\r\n')])
}
export function headerLines(headers: Readonly<Record<string, string>>): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
}

/** Writes and waits until the kernel has it, so that a slow reader holds the play back. */
export async function say(socket: Socket, piece: string | Buffer): Promise<void> {
  if (socket.destroyed || !socket.writable) return
  await new Promise<void>((resolve) => socket.write(piece, () => resolve()))
}

// ---- reading a request ----

type Parsed = Omit<Talk, 'socket' | 'gone'> & { readonly bytes: number }

function requestIn(held: Buffer, early: boolean): Parsed | undefined {
  const end = held.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const rawHead = held.subarray(0, end).toString('latin1')
  const [first = '', ...lines] = rawHead.split('\r\n')
  const [method = '', path = ''] = first.split(' ')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const rest = held.subarray(end + 4)
  const made = { method, path, headers, rawHead }
  if (early) return { ...made, body: Buffer.alloc(0), bytes: held.length }
  if (headers['transfer-encoding'] === 'chunked') {
    const body = unchunked(rest)
    return body && { ...made, body: body.payload, bytes: end + 4 + body.bytes }
  }
  const length = Number(headers['content-length'] ?? 0)
  if (rest.length < length) return undefined
  return { ...made, body: rest.subarray(0, length), bytes: end + 4 + length }
}

/** How many bytes of a body with a length are still to come. */
function missingOf(held: Buffer): number {
  const end = held.indexOf('\r\n\r\n')
  if (end < 0) return 0
  const length = /^content-length: *(\d+)/im.exec(held.subarray(0, end).toString('latin1'))?.[1]
  return length === undefined ? 0 : end + 4 + Number(length) - held.length
}

function unchunked(rest: Buffer): { payload: Buffer; bytes: number } | undefined {
  const pieces: Buffer[] = []
  for (let at = 0; ;) {
    const line = rest.indexOf('\r\n', at)
    if (line < 0) return undefined
    const length = Number.parseInt(rest.subarray(at, line).toString(), 16)
    if (rest.length < line + 2 + length + 2) return undefined
    pieces.push(rest.subarray(line + 2, line + 2 + length))
    at = line + 2 + length + 2
    if (length === 0) return { payload: Buffer.concat(pieces), bytes: at }
  }
}
