/** One HTTP request exactly as its bytes arrived, and the socket to answer on. */
import type { Socket } from 'node:net'
import { type Json, jsonIn } from './json.ts'

export class Exchange {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly rawHead: string
  readonly bytes: Buffer
  readonly socket: Socket
  /** Resolves when the client has left or the socket has closed for any other reason. */
  readonly gone: Promise<void>
  #text: string | undefined
  #body: Json

  constructor(request: ParsedRequest, socket: Socket, gone: Promise<void>) {
    this.method = request.method
    this.path = request.path
    this.headers = request.headers
    this.rawHead = request.rawHead
    this.bytes = request.body
    this.socket = socket
    this.gone = gone
  }

  get text(): string {
    return (this.#text ??= this.bytes.toString())
  }

  /** The parsed body; an empty object if it is not JSON. */
  get body(): Json {
    return (this.#body ??= jsonIn(this.text) ?? {})
  }

  /** The conversation in the body. */
  get messages(): readonly Message[] {
    return this.body.messages ?? []
  }
}

export type Message = { readonly role: string; readonly content?: Json; readonly [field: string]: Json }

export type ParsedRequest = {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly rawHead: string
  readonly body: Buffer
}

/**
 * Calls back for each request on the socket, in order.
 * `early`: as soon as the head is complete, without waiting for the body.
 */
export function readRequests(socket: Socket, early: boolean, onRequest: (request: ParsedRequest) => void): void {
  let held: Buffer[] = []
  let missing = 0
  socket.on('data', (bytes: Buffer) => {
    held.push(bytes)
    missing -= bytes.length
    if (missing > 0) return // concatenating a huge body for every packet would be quadratic
    let rest = Buffer.concat(held)
    for (let next = requestIn(rest, early); next !== undefined; next = requestIn(rest, early)) {
      rest = rest.subarray(next.size)
      onRequest(next.request)
    }
    held = rest.length === 0 ? [] : [rest]
    missing = missingBytes(rest)
  })
}

// ---- details ----

function requestIn(held: Buffer, early: boolean): { request: ParsedRequest; size: number } | undefined {
  const end = held.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const rawHead = held.subarray(0, end).toString('latin1')
  const [first = '', ...lines] = rawHead.split('\r\n')
  const [method = '', path = ''] = first.split(' ')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const head = { method, path, headers, rawHead }
  if (early) return { request: { ...head, body: Buffer.alloc(0) }, size: held.length }
  const rest = held.subarray(end + 4)
  if (headers['transfer-encoding'] === 'chunked') {
    const body = unchunked(rest)
    return body && { request: { ...head, body: body.payload }, size: end + 4 + body.size }
  }
  const length = Number(headers['content-length'] ?? 0)
  if (rest.length < length) return undefined
  return { request: { ...head, body: rest.subarray(0, length) }, size: end + 4 + length }
}

/** How many bytes of a body with a `content-length` have not arrived yet. */
function missingBytes(held: Buffer): number {
  const end = held.indexOf('\r\n\r\n')
  if (end < 0) return 0
  const length = /^content-length: *(\d+)/im.exec(held.subarray(0, end).toString('latin1'))?.[1]
  return length === undefined ? 0 : end + 4 + Number(length) - held.length
}

function unchunked(rest: Buffer): { payload: Buffer; size: number } | undefined {
  const pieces: Buffer[] = []
  for (let at = 0; ;) {
    const line = rest.indexOf('\r\n', at)
    if (line < 0) return undefined
    const length = Number.parseInt(rest.subarray(at, line).toString(), 16)
    if (rest.length < line + 2 + length + 2) return undefined
    pieces.push(rest.subarray(line + 2, line + 2 + length))
    at = line + 2 + length + 2
    if (length === 0) return { payload: Buffer.concat(pieces), size: at }
  }
}
