/**
 * AWS's binary event stream (`application/vnd.amazon.eventstream`), as Bedrock frames its answers: read into server-sent events and
 * written from them. Everything in between knows one kind of stream.
 *
 * I1  A frame is read once all of it is there and both of its checksums are right. Anything else breaks the answer off.
 * I2  A chunk that is read and written again unchanged has the same bytes: its padding travels in the name of the event.
 */
import { Fault, isFault } from '@breakfall/faults'
import { type JsonObject, objectOr, parsedOr, stringOr } from './json.ts'

/** Larger than any frame that a model has sent; a length above it is no length. */
const FRAME_BYTES_MAX = 4 * 1024 * 1024
const PRELUDE = 12
const STRING = 7

export class EventStreamReader {
  #chunks: Buffer[] = []
  #length = 0
  /** Bytes until there is something to read. */
  #wanted = PRELUDE
  /** Reported once what came before it was read: that may be all there is. */
  #fault: Fault | undefined

  /** The frames that are complete now, as the text of server-sent events. */
  push(chunk: Buffer): string {
    if (this.#fault !== undefined) throw this.#fault
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (this.#length < this.#wanted) return ''
    let bytes = Buffer.concat(this.#chunks)
    let out = ''
    try {
      for (this.#wanted = PRELUDE; bytes.length >= this.#wanted; this.#wanted = PRELUDE) {
        const total = frameLength(bytes)
        this.#wanted = total
        if (bytes.length < total) break
        out += eventOf(bytes.subarray(0, total))
        bytes = bytes.subarray(total)
      }
    } catch (thrown) {
      if (!isFault(thrown) || out === '') throw thrown
      this.#fault = thrown
    }
    this.#chunks = bytes.length === 0 ? [] : [bytes]
    this.#length = bytes.length
    return out
  }

  end(): string {
    if (this.#fault !== undefined) throw this.#fault
    if (this.#length > 0) throw broken('the body ended inside a frame')
    return ''
  }
}

/** The name of an event in which the server reports an error. */
export const EXCEPTION = 'exception'

/** One event as Bedrock frames it: a chunk with its JSON inside, or an exception. */
export function eventStreamFrame({
  event,
  data,
}: {
  readonly event?: string | undefined
  readonly data: string
}): Buffer {
  if (event === EXCEPTION) {
    const { type, status: _status, ...payload } = objectOr(objectOr(parsedOr(data))['error'])
    const name = stringOr(type).endsWith('Exception') ? stringOr(type) : 'internalServerException'
    const headers = { ':exception-type': name, ':content-type': 'application/json', ':message-type': EXCEPTION }
    return framed(headers, JSON.stringify(payload))
  }
  const padding = event?.startsWith(CHUNK) === true ? event.slice(CHUNK.length) : ''
  const bytes = Buffer.from(data).toString('base64')
  const payload = padding === '' ? `{"bytes":"${bytes}"}` : `{"bytes":"${bytes}","p":"${padding}"}`
  return framed({ ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' }, payload)
}

/** Headers and payload with their lengths and checksums. */
export function framed(headers: Readonly<Record<string, string>>, payload: string): Buffer {
  const parts = Object.entries(headers).map(([name, value]) => {
    const [key, text] = [Buffer.from(name), Buffer.from(value)]
    return Buffer.concat([Buffer.of(key.length), key, Buffer.of(STRING, text.length >> 8, text.length & 0xff), text])
  })
  const head = Buffer.concat(parts)
  const body = Buffer.from(payload)
  const frame = Buffer.alloc(PRELUDE + head.length + body.length + 4)
  frame.writeUInt32BE(frame.length, 0)
  frame.writeUInt32BE(head.length, 4)
  frame.writeUInt32BE(crc32(frame, 0, 8), 8)
  head.copy(frame, PRELUDE)
  body.copy(frame, PRELUDE + head.length)
  frame.writeUInt32BE(crc32(frame, 0, frame.length - 4), frame.length - 4)
  return frame
}

// ---- details ----

const CHUNK = 'chunk '

function frameLength(bytes: Buffer): number {
  const total = bytes.readUInt32BE(0)
  if (bytes.readUInt32BE(8) !== crc32(bytes, 0, 8)) throw broken('the checksum of a frame’s length is wrong') // I1
  if (total < PRELUDE + 4 || total > FRAME_BYTES_MAX || bytes.readUInt32BE(4) > total - PRELUDE - 4)
    throw broken(`a frame claims ${total} bytes`)
  return total
}

function eventOf(frame: Buffer): string {
  if (frame.readUInt32BE(frame.length - 4) !== crc32(frame, 0, frame.length - 4))
    throw broken('the checksum of a frame is wrong') // I1
  const headersEnd = PRELUDE + frame.readUInt32BE(4)
  const headers = headersIn(frame.subarray(PRELUDE, headersEnd))
  const payload = frame.toString('utf8', headersEnd, frame.length - 4)
  const kind = headers.get(':message-type')
  if (kind === 'error')
    return exception(headers.get(':error-code') ?? '', { message: headers.get(':error-message') ?? '' })
  if (kind === EXCEPTION) return exception(headers.get(':exception-type') ?? '', objectOr(parsedOr(payload)))
  const [, canonical, padding = ''] = CANONICAL.exec(payload) ?? []
  const encoded = canonical ?? objectOr(parsedOr(payload))['bytes']
  if (typeof encoded !== 'string') return sse(oneWord(headers.get(':event-type') ?? ''), payload)
  return sse(padding === '' ? '' : CHUNK + padding, Buffer.from(encoded, 'base64').toString('utf8'))
}

const CANONICAL = /^\{"bytes":"([A-Za-z0-9+/=]*)"(?:,"p":"(\w+)")?\}$/

/** In the form of the API's own errors. */
function exception(type: string, payload: JsonObject): string {
  const status = Object.hasOwn(STATUSES, type) ? STATUSES[type] : 500
  return sse(EXCEPTION, JSON.stringify({ type: 'error', error: { type, status, ...payload } }))
}

/** A model's error inside a stream has status 424, with the advice to ask again. */
const STATUSES: Readonly<Record<string, number>> = {
  throttlingException: 429,
  modelStreamErrorException: 500,
  modelTimeoutException: 408,
  internalServerException: 500,
  serviceUnavailableException: 503,
  validationException: 400,
}

const oneWord = (text: string): string => text.replaceAll(/\W+/g, '')

/** In JSON a line break between two values means nothing. */
const sse = (event: string, data: string): string =>
  `${event === '' ? '' : `event: ${event}\n`}data: ${data.replaceAll(/[\r\n]+/g, ' ')}\n\n`

/** Headers that are strings. No other kind is read here. */
function headersIn(bytes: Buffer): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (let at = 0; at < bytes.length;) {
    const nameEnd = at + 1 + (bytes[at] ?? 0)
    const name = bytes.toString('utf8', at + 1, nameEnd)
    const type = bytes[nameEnd] ?? -1
    const fixed = SIZES[type]
    const isSized = fixed === undefined
    if (nameEnd + (isSized ? 3 : 1) > bytes.length || type < 0 || type > 9)
      throw broken('the headers of a frame cannot be read')
    const start = nameEnd + (isSized ? 3 : 1)
    const end = start + (fixed ?? bytes.readUInt16BE(nameEnd + 1))
    if (end > bytes.length) throw broken('the headers of a frame cannot be read')
    if (type === STRING) found.set(name, bytes.toString('utf8', start, end))
    at = end
  }
  return found
}

/** Of the types of headers; strings and bytes say their length. */
const SIZES: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }

const broken = (errorRaw: string): Fault => new Fault('model_stream_interrupted', { phase: 'stream', errorRaw })

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})

/** `zlib.crc32` is missing in early releases of Node 20. */
function crc32(bytes: Buffer, from: number, to: number): number {
  let value = 0xffffffff
  for (let at = from; at < to; at++) value = (value >>> 8) ^ (TABLE[(value ^ (bytes[at] ?? 0)) & 0xff] ?? 0)
  return ~value >>> 0
}
