/** Counts the lines of the event that is arriving. The decoder joins them one by one, so many tiny lines cost it many times their size. */
export class EventLines {
  #count = 0
  /** Of the line that is arriving, or undefined at its beginning. */
  #first: number | undefined
  #last = LF

  /** Since the last empty line, without comments. */
  get count(): number {
    return this.#count
  }

  add(chunk: Buffer): void {
    const blank = chunk.lastIndexOf(EMPTY_LINE) // nearly every read ends with one
    if (blank !== -1) {
      this.#count = 0
      this.#first = undefined
      this.#last = LF
    }
    const from = blank === -1 ? 0 : blank + EMPTY_LINE.length
    if (from === chunk.length) return
    if (!chunk.includes(LF, from) && !chunk.includes(CR, from)) {
      this.#first ??= chunk[from]
      this.#last = 0
      return
    }
    for (let at = from; at < chunk.length; at++) this.#byte(chunk[at] ?? 0)
  }

  #byte(byte: number): void {
    const isSameEnd = byte === LF && this.#last === CR
    this.#last = byte
    if (isSameEnd) return
    if (byte !== LF && byte !== CR) {
      this.#first ??= byte
      return
    }
    if (this.#first === undefined) this.#count = 0
    else if (this.#first !== COLON) this.#count++
    this.#first = undefined
  }
}

// ---- details ----

const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const EMPTY_LINE = Buffer.from('\n\n')
