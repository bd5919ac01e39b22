/**
 * A command's output, already without secrets, for the journal and the model: the head as it arrives, the tail when it is over, and
 * only a count of what is between. The runner keeps everything.
 */

export const OUTPUT_LIMITS = {
  journalBytes: 256 * 1024, // head, and as much again for the tail
  modelChars: 16 * 1024, // head, and as much again for the tail
} as const

export type OutputChunk = { readonly stream: 'stdout' | 'stderr'; readonly text: string }

/** Its input contains no secrets any more: cutting it cannot leave half a secret. */
export class OutputTail {
  readonly #pieces: OutputChunk[] = []
  #bytes = 0
  #headLeft: number
  #omitted = 0

  constructor(journalledBytes: number) {
    this.#headLeft = Math.max(0, OUTPUT_LIMITS.journalBytes - journalledBytes)
  }

  /** The text that belongs to the head and is journalled at once; the rest is kept for the tail. */
  take(piece: OutputChunk): string {
    const bytes = Buffer.byteLength(piece.text)
    if (bytes <= this.#headLeft) {
      this.#headLeft -= bytes
      return piece.text
    }
    // A chunk is never split between head and tail: the head then ends at a position that the journal records, and after a crash
    // the runner can be asked for exactly what follows.
    this.#headLeft = 0
    this.#pieces.push(piece)
    this.#bytes += bytes
    while (this.#bytes > OUTPUT_LIMITS.journalBytes) this.#dropOldest(this.#bytes - OUTPUT_LIMITS.journalBytes)
    return ''
  }

  /** Removes at least `bytes` from the oldest chunk, or all of it if it is smaller; never half a character. */
  #dropOldest(bytes: number): void {
    const oldest = this.#pieces[0]
    if (oldest === undefined) return
    const text = Buffer.from(oldest.text)
    let cut = Math.min(bytes, text.length)
    while (cut < text.length && ((text[cut] ?? 0) & 0xc0) === 0x80) cut++
    if (cut === text.length) this.#pieces.shift()
    else this.#pieces[0] = { ...oldest, text: text.subarray(cut).toString() }
    this.#bytes -= cut
    this.#omitted += cut
  }

  /** What is journalled at the end: a marker with the count, if anything was left out, and the tail. */
  rest(): readonly OutputChunk[] {
    if (this.#pieces.length === 0) return []
    const marker = `\n[… ${this.#omitted} bytes left out here; the runner keeps all of it …]\n`
    return this.#omitted === 0 ? this.#pieces : [{ stream: 'stdout', text: marker }, ...this.#pieces]
  }
}

/** Head and tail of a journalled output. The count of omitted bytes includes what the journal itself left out. */
export function forModel(text: string, charsEach: number = OUTPUT_LIMITS.modelChars): string {
  if (text.length <= charsEach * 2) return text
  const head = text.slice(0, charsEach).toWellFormed()
  const tail = text.slice(-charsEach).toWellFormed()
  const between = text.slice(charsEach, -charsEach)
  const earlier = MARKER.exec(between)
  const bytes = Buffer.byteLength(between) + (earlier === null ? 0 : Number(earlier[1]) - Buffer.byteLength(earlier[0]))
  return `${head}\n[… ${bytes} bytes left out …]\n${tail}`
}

const MARKER = /\n\[… (\d+) bytes left out here; the runner keeps all of it …\]\n/
