/**
 * Splits a byte stream into lines within fixed memory. Handles gigabytes without a newline, characters split across chunks,
 * invalid UTF-8, NUL bytes, CR and CRLF.
 *
 * I1  Memory is headBytesMax + tailBytesMax, allocated once; chunks are copied, never kept (a kept slice pins its slab).
 * I2  The lines do not depend on how the bytes were split into chunks.
 * I3  A line that is too long keeps its head and its tail, and reports how many bytes were dropped between them.
 */

export type Line = {
  readonly text: string
  /** Bytes dropped in the middle. */
  readonly droppedBytes: number
}

export const LINE_LIMITS = {
  headBytesMax: 16 * 1024, // the longest real message seen was a 2 KiB CUDA report
  tailBytesMax: 4 * 1024, // enough for a message right after a flood without a newline
} as const

export class LineSplitter {
  readonly #onLine: (line: Line) => void
  readonly #head = Buffer.allocUnsafe(LINE_LIMITS.headBytesMax)
  readonly #tail = Buffer.allocUnsafe(LINE_LIMITS.tailBytesMax)
  #headBytes = 0
  #tailBytes = 0
  #beyondHead = 0 // bytes of this line that did not fit into the head
  #afterCr = false

  constructor(onLine: (line: Line) => void) {
    this.#onLine = onLine
  }

  push(chunk: Uint8Array): void {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    let start = 0
    let lf = bytes.indexOf(LF)
    let cr = bytes.indexOf(CR)
    while (lf !== -1 || cr !== -1) {
      const end = lf === -1 || (cr !== -1 && cr < lf) ? cr : lf
      const isPairEnd = end === lf && end === start && this.#afterCr && this.#isEmpty()
      this.#append(bytes.subarray(start, end))
      if (!isPairEnd) this.#flush()
      this.#afterCr = end === cr
      start = end + 1
      if (lf !== -1 && lf < start) lf = bytes.indexOf(LF, start)
      if (cr !== -1 && cr < start) cr = bytes.indexOf(CR, start)
    }
    if (start < bytes.length) {
      this.#afterCr = false
      this.#append(bytes.subarray(start))
    }
  }

  /** The unfinished line, if there is one. It stays unfinished. */
  peek(): Line | undefined {
    return this.#isEmpty() ? undefined : this.#line()
  }

  /** The stream is over: an unfinished line counts as a line. */
  end(): void {
    if (!this.#isEmpty()) this.#flush()
  }

  #isEmpty(): boolean {
    return this.#headBytes === 0
  }

  #append(bytes: Buffer): void {
    const room = LINE_LIMITS.headBytesMax - this.#headBytes
    const toHead = Math.min(room, bytes.length)
    if (toHead > 0) {
      bytes.copy(this.#head, this.#headBytes, 0, toHead) // I1
      this.#headBytes += toHead
    }
    if (toHead < bytes.length) this.#appendToTail(bytes.subarray(toHead))
  }

  #appendToTail(bytes: Buffer): void {
    this.#beyondHead += bytes.length
    const max = LINE_LIMITS.tailBytesMax
    if (bytes.length >= max) {
      bytes.copy(this.#tail, 0, bytes.length - max)
      this.#tailBytes = max
      return
    }
    const keep = Math.min(this.#tailBytes, max - bytes.length)
    this.#tail.copyWithin(0, this.#tailBytes - keep, this.#tailBytes)
    bytes.copy(this.#tail, keep)
    this.#tailBytes = keep + bytes.length
  }

  #line(): Line {
    const head = decode(this.#head.subarray(0, this.#headBytes))
    if (this.#beyondHead === 0) return { text: head, droppedBytes: 0 }
    const droppedBytes = this.#beyondHead - this.#tailBytes
    const tail = decode(this.#tail.subarray(0, this.#tailBytes))
    // I3: if nothing was dropped, head and tail form one text (a character split there shows as two replacement marks).
    return { text: droppedBytes === 0 ? head + tail : `${head} … ${tail}`, droppedBytes }
  }

  #flush(): void {
    const line = this.#line()
    this.#headBytes = 0
    this.#tailBytes = 0
    this.#beyondHead = 0
    this.#onLine(line)
  }
}

// ---- details ----

const LF = 0x0a
const CR = 0x0d
const utf8 = new TextDecoder('utf-8') // invalid bytes become U+FFFD; a byte order mark is removed

const decode = (bytes: Uint8Array): string => utf8.decode(bytes)
