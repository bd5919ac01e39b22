/**
 * Splits a server's stdout into JSON-RPC messages within a fixed limit.
 *
 * I1  At most `messageBytesMax` of an unfinished line are kept. A longer line, or one of too many values, is reported once, and
 *     nothing of it is parsed.
 * I2  A line that is not JSON-RPC is reported, not thrown: servers print banners.
 * I3  The end of the output ends its last line: a server that dies after a whole answer has answered.
 */
import { deserializeMessage, type JSONRPCMessage } from '@modelcontextprotocol/client'
import { type MessageLimits, MessageMeter } from './message-meter.ts'

export type LineHandlers = {
  readonly onMessage: (message: JSONRPCMessage) => void
  readonly onGarbage: (line: string) => void
  readonly onTooLarge: (excess: string) => void
}

const LF = 0x0a
const GARBAGE_CHARS = 200

export class JsonLines {
  readonly #limits: MessageLimits
  readonly #handlers: LineHandlers
  #held: Buffer[] = []
  #meter: MessageMeter
  #isTooLarge = false

  constructor(limits: MessageLimits, handlers: LineHandlers) {
    this.#limits = limits
    this.#meter = new MessageMeter(limits)
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
    if (this.#isTooLarge) return
    const excess = this.#meter.add(bytes)
    if (excess === undefined) return void this.#held.push(bytes)
    this.#handlers.onTooLarge(excess)
    this.#isTooLarge = true // I1
    this.#held = []
  }

  #line(): void {
    const wasTooLarge = this.#isTooLarge
    const text = this.#held.length === 1 ? String(this.#held[0]) : Buffer.concat(this.#held).toString()
    this.#held = []
    this.#meter = new MessageMeter(this.#limits)
    this.#isTooLarge = false
    if (wasTooLarge || text.trim() === '') return
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
