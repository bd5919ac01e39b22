/**
 * The server's side of a WebSocket (RFC 6455) for text messages: the handshake, and frames in both directions. Without extensions.
 *
 * I1  What a client has sent of a message is taken from its share of the memory as it arrives, and is bounded.
 * I2  Every violation of the protocol ends the connection with the code that it has there.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { isFault } from '@breakfall/faults'
import { HeldBytes, type MemoryShare, taking } from '@breakfall/wire/node'

export type WebSocketOptions = {
  readonly messageBytesMax: number
  /** For the message that arrives. */
  readonly memory: () => MemoryShare
  readonly onMessage: (message: readonly Buffer[], memory: MemoryShare) => void
  readonly onClose: () => void
}

/** Codes of a close frame. */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  protocol: 1002,
  unsupported: 1003,
  tooLarge: 1009,
  failed: 1011,
  later: 1013,
} as const

export const isHandshake = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' &&
  /^[A-Za-z0-9+/]{22}==$/.test(headers['sec-websocket-key'] ?? '') &&
  headers['sec-websocket-version'] === '13'

export class WebSocketConnection {
  readonly socket: Duplex
  readonly #options: WebSocketOptions
  #bytes: Buffer = Buffer.alloc(0)
  /** Of the data frame whose payload arrives. */
  #left = 0
  #mask: Buffer = Buffer.alloc(4)
  #masked = 0
  #isLast = false
  /** The message so far. */
  #message: { readonly held: HeldBytes; readonly memory: MemoryShare } | undefined
  #isClosing = false

  /** Answers the handshake. */
  constructor(req: IncomingMessage, socket: Duplex, head: Buffer, options: WebSocketOptions) {
    this.socket = socket
    this.#options = options
    const accept = createHash('sha1').update(`${req.headers['sec-websocket-key']}${GUID}`).digest('base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    )
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#gone())
    socket.on('end', () => socket.destroy())
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    if (head.length > 0) this.#read(head)
  }

  /** False if the client is behind. */
  send(text: string): boolean {
    if (this.#isClosing || this.socket.destroyed) return true
    return this.socket.write(frameOf(TEXT, Buffer.from(text)))
  }

  close(code: number): void {
    if (this.#isClosing || this.socket.destroyed) return
    this.#isClosing = true
    this.socket.end(frameOf(CLOSES, Buffer.of(code >> 8, code & 0xff)))
    setTimeout(() => this.socket.destroy(), LINGER_MS).unref()
  }

  // ---- details ----

  #gone(): void {
    this.#isClosing = true
    this.#message?.memory.close()
    this.#message = undefined
    this.#options.onClose()
  }

  #read(chunk: Buffer): void {
    let bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk])
    try {
      while (bytes.length > 0 && !this.#isClosing) {
        const used = this.#left > 0 ? this.#payload(bytes) : this.#frame(bytes)
        if (used === 0) break
        bytes = bytes.subarray(used)
      }
    } catch (thrown) {
      if (!isFault(thrown)) throw thrown
      return this.close(CLOSE.later) // no room for it
    }
    this.#bytes = this.#isClosing ? Buffer.alloc(0) : bytes
  }

  /** The bytes of a frame's head, or of a whole control frame; 0 if more have to come. */
  #frame(bytes: Buffer): number {
    const [first = 0, second = 0] = bytes
    if (bytes.length < 2) return 0
    const opcode = first & 0x0f
    const isControl = opcode >= CLOSES
    const isFinal = (first & 0x80) !== 0
    let length = second & 0x7f
    const isKnown = isControl ? isFinal && length <= 125 && opcode <= PONG : opcode <= BINARY
    if ((first & 0x70) !== 0 || (second & 0x80) === 0 || !isKnown) return this.#refuse(CLOSE.protocol)
    const start = length < 126 ? 2 : length === 126 ? 4 : 10
    if (bytes.length < start + 4) return 0
    if (length === 126) length = bytes.readUInt16BE(2)
    if (length === 127) length = Number(bytes.readBigUInt64BE(2))
    const mask = bytes.subarray(start, start + 4)
    if (isControl) return this.#control(opcode, bytes, start + 4, length, mask)
    if (opcode === BINARY) return this.#refuse(CLOSE.unsupported)
    if ((opcode === TEXT) !== (this.#message === undefined)) return this.#refuse(CLOSE.protocol)
    if ((this.#message?.held.length ?? 0) + length > this.#options.messageBytesMax) return this.#refuse(CLOSE.tooLarge)
    if (this.#message === undefined) {
      const memory = this.#options.memory()
      this.#message = { memory, held: new HeldBytes(taking(memory)) } // I1
    }
    this.#mask = Buffer.from(mask)
    this.#left = length
    this.#masked = 0
    this.#isLast = isFinal
    if (length === 0) this.#endFrame()
    return start + 4
  }

  #payload(bytes: Buffer): number {
    const used = Math.min(this.#left, bytes.length)
    this.#message?.held.add(unmasked(bytes.subarray(0, used), this.#mask, this.#masked)) // I1
    this.#masked += used
    this.#left -= used
    if (this.#left === 0) this.#endFrame()
    return used
  }

  #endFrame(): void {
    const message = this.#message
    if (!this.#isLast || message === undefined) return
    this.#message = undefined
    this.#options.onMessage(message.held.blocks(), message.memory)
  }

  #control(opcode: number, bytes: Buffer, start: number, length: number, mask: Buffer): number {
    if (bytes.length < start + length) return 0
    const payload = unmasked(bytes.subarray(start, start + length), mask, 0)
    if (opcode === CLOSES) this.close(length >= 2 ? payload.readUInt16BE(0) : CLOSE.normal)
    // A client that pings and does not read gets no answer.
    if (opcode === PING && !this.socket.writableNeedDrain) this.socket.write(frameOf(PONG, payload))
    return start + length
  }

  /** I2 */
  #refuse(code: number): number {
    this.close(code)
    return 0
  }
}

// ---- details ----

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const LINGER_MS = 1_000
const [TEXT, BINARY, CLOSES, PING, PONG] = [1, 2, 8, 9, 10]

function frameOf(opcode: number, payload: Buffer): Buffer {
  const { length } = payload
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head[0] = 0x80 | opcode
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

/** A copy. `from`: how many bytes of this frame came before. */
function unmasked(bytes: Buffer, mask: Buffer, from: number): Buffer {
  const out = Buffer.allocUnsafe(bytes.length)
  for (let at = 0; at < bytes.length; at++) out[at] = (bytes[at] ?? 0) ^ (mask[(from + at) & 3] ?? 0)
  return out
}
