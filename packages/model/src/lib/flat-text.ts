/**
 * A text that arrives in a hundred thousand pieces. Appended one by one they would form a rope whose nodes take many times the
 * memory of the text, so every few kilobytes become one flat string.
 */
const FLAT_CHARS_MIN = 4_096

export class FlatText {
  readonly #flat: string[] = []
  #open = ''
  #length = 0

  constructor(text = '') {
    this.add(text)
  }

  get length(): number {
    return this.#length
  }

  add(text: string): void {
    this.#length += text.length
    this.#open += text
    if (this.#open.length >= FLAT_CHARS_MIN) this.close()
  }

  /** Makes what is open one piece, too, for texts that wait. */
  close(): void {
    if (this.#open === '') return
    this.#flat.push(flattened(this.#open))
    this.#open = ''
  }

  toString(): string {
    return this.#flat.join('') + this.#open
  }
}

/**
 * A copy in one piece. V8 flattens a concatenation when it is sliced, and the slice keeps nothing else alive. A slice of a longer
 * text keeps all of that alive.
 */
export const flattened = (text: string): string => ` ${text}`.slice(1)
