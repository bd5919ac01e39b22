/**
 * Splits a server's stdout into JSON-RPC messages within a fixed limit.
 *
 * I1  At most `bytesMax` of an unfinished line are kept. A longer line is reported once, and nothing of it is parsed.
 * I2  A line that is not JSON-RPC is reported, not thrown: servers print banners.
 * I3  The end of the output ends its last line: a server that dies after a whole answer has answered.
 */
import { deserializeMessage, type JSONRPCMessage } from '@modelcontextprotocol/client'

export type LineHandlers = {
  readonly onMessage: (message: JSONRPCMessage) => void
  readonly onGarbage: (line: string) => void
  readonly onTooLong: (bytes: number) => void
}

const LF = 0x0a
const GARBAGE_CHARS = 200

export class JsonLines {
  readonly #bytesMax: number
  readonly #handlers: LineHandlers
  #held: Buffer[] = []
  #heldBytes = 0
  #isTooLong = false

  constructor(bytesMax: number, handlers: LineHandlers) {
    this.#bytesMax = bytesMax
    this.#handlers = handlers
  }

  push(chunk: Buffer): void {
    let start = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      this.#hold(chunk.subarray(start, end))
      this.#line()
      start = end + 1
    }
    if (start < chunk.length) this.#hold(Buffer.from(chunk.subarray(start))) // a copy: the chunk belongs to the pipe
  }

  end(): void {
    if (this.#held.length > 0) this.#line() // I3
  }

  #hold(bytes: Buffer): void {
    if (this.#isTooLong) return
    if (this.#heldBytes + bytes.length > this.#bytesMax) {
      this.#handlers.onTooLong(this.#heldBytes + bytes.length)
      this.#isTooLong = true // I1
      this.#held = []
      this.#heldBytes = 0
      return
    }
    this.#held.push(bytes)
    this.#heldBytes += bytes.length
  }

  #line(): void {
    const wasTooLong = this.#isTooLong
    const text = this.#held.length === 1 ? String(this.#held[0]) : Buffer.concat(this.#held).toString()
    this.#held = []
    this.#heldBytes = 0
    this.#isTooLong = false
    if (wasTooLong || text.trim() === '') return
    let message: JSONRPCMessage
    try {
      message = deserializeMessage(text)
    } catch {
      this.#handlers.onGarbage(text.slice(0, GARBAGE_CHARS)) // I2
      return
    }
    this.#handlers.onMessage(message)
  }
}
