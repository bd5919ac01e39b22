/**
 * Keeps the first and the last lines of a stream: how it started and how it ended.
 *
 * I1  Bounded in lines and in characters.
 * I2  Lines keep their order, and every byte is either kept or counted as dropped.
 */
import { cutEnd, cutStart } from '@breakfall/faults/internal'
import type { Line } from './lines.ts'
import { keyBlockFilter, type Redactor } from './redactor.ts'

export const TAIL_LIMITS = {
  firstLinesMax: 32, // version, arguments, the model it loads
  lastLinesMax: 128, // a long Python traceback
  charsMax: 256 * 1024, // of the whole stream
} as const

export class Tail {
  readonly #withoutKeys = keyBlockFilter()
  readonly #first: string[] = []
  readonly #last: KeptLine[] = []
  #next = 0 // where the ring of last lines is written next
  #chars = 0
  #lines = 0
  #droppedBytes = 0

  push(line: Line): void {
    const text = this.#withoutKeys(line.text)
    this.#lines += 1
    this.#droppedBytes += line.droppedBytes
    const isFull = this.#first.length === TAIL_LIMITS.firstLinesMax || this.#last.length > 0 // I2
    if (!isFull && this.#chars + text.length <= TAIL_LIMITS.charsMax / 4) {
      this.#first.push(text)
      this.#chars += text.length
      return
    }
    this.#replaceOldest(text)
  }

  /** Bytes that were not kept, without line endings. */
  get droppedBytes(): number {
    return this.#droppedBytes
  }

  get lines(): number {
    return this.#lines
  }

  /** Redacted, oldest first, with a mark where lines were dropped. */
  text(redactor: Redactor): readonly string[] {
    const last = [...this.#last.slice(this.#next), ...this.#last.slice(0, this.#next)]
    const dropped = this.#lines - this.#first.length - last.length
    return [
      ...this.#first,
      ...(dropped > 0 ? [`… ${dropped} lines dropped …`] : []),
      ...last.map(({ text }) => text),
    ].map(redactor)
  }

  #replaceOldest(text: string): void {
    const fresh = text.length > LAST_LINE_CHARS_MAX ? cut(text) : { text, bytes: Buffer.byteLength(text) } // I1
    this.#droppedBytes += Buffer.byteLength(text) - fresh.bytes // I2
    if (this.#last.length < TAIL_LIMITS.lastLinesMax) {
      this.#last.push(fresh)
      return
    }
    this.#droppedBytes += this.#last[this.#next]?.bytes ?? 0 // I2
    this.#last[this.#next] = fresh
    this.#next = (this.#next + 1) % TAIL_LIMITS.lastLinesMax
  }
}

// ---- details ----

/** A line, and how many bytes of the child's output it contains. */
type KeptLine = { readonly text: string; readonly bytes: number }

const LAST_LINE_CHARS_MAX = Math.floor((TAIL_LIMITS.charsMax * 3) / 4 / TAIL_LIMITS.lastLinesMax)

function cut(text: string): KeptLine {
  const [head, tail] = [cutStart(text, LAST_LINE_CHARS_MAX - 300), cutEnd(text, 296)]
  return { text: `${head} … ${tail}`, bytes: Buffer.byteLength(head) + Buffer.byteLength(tail) }
}
