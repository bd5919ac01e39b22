/**
 * Measures a message before anything parses it: a few megabytes of JSON can hold millions of values, which take hundreds of
 * megabytes and seconds.
 */

export type MessageLimits = {
  readonly messageBytesMax: number
  readonly messageValuesMax: number
}

export class MessageMeter {
  readonly #limits: MessageLimits
  readonly #isEvents: boolean
  #bytes = 0
  #values = 0
  #isLineEmpty = true
  #isInText = false
  #last = 0

  /** `isEvents`: a blank line ends a message, as in a stream of events. */
  constructor(limits: MessageLimits, isEvents = false) {
    this.#limits = limits
    this.#isEvents = isEvents
  }

  /** Which limit the message has passed, if one. */
  add(chunk: Uint8Array): string | undefined {
    const { messageBytesMax, messageValuesMax } = this.#limits
    for (const byte of chunk) {
      this.#take(byte)
      if (this.#bytes > messageBytesMax) return `more than ${Math.round(messageBytesMax / 2 ** 20)} MiB`
      if (this.#values > messageValuesMax) return `more than ${messageValuesMax} values`
    }
    return undefined
  }

  // ---- details ----

  #take(byte: number): void {
    this.#bytes += 1
    const last = this.#last
    // An escaped backslash escapes nothing.
    this.#last = last === BACKSLASH && byte === BACKSLASH ? 0 : byte
    if (byte === CR || byte === LF) {
      if (byte === CR || last !== CR) this.#endLine()
      return
    }
    this.#isLineEmpty = false
    if (byte === QUOTE) this.#isInText = !this.#isInText || last === BACKSLASH
    else if (!this.#isInText && (byte === COMMA || byte === OBJECT || byte === LIST)) this.#values += 1
  }

  #endLine(): void {
    if (this.#isEvents && this.#isLineEmpty) this.#bytes = this.#values = 0
    else if (this.#isEvents) this.#values += 1 // an empty one costs as much
    this.#isLineEmpty = true
    this.#isInText = false // no text of JSON contains the end of a line; a comment between events may have an odd quote
  }
}

const [LF, CR, QUOTE, COMMA, LIST, BACKSLASH, OBJECT] = [0x0a, 0x0d, 0x22, 0x2c, 0x5b, 0x5c, 0x7b]
