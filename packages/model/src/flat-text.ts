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
    if (this.#open.length < FLAT_CHARS_MIN) return
    this.#flat.push(flattened(this.#open))
    this.#open = ''
  }

  toString(): string {
    return this.#flat.join('') + this.#open
  }
}

/** Through bytes and back: exact for every string, and certainly one piece. */
export const flattened = (text: string): string => Buffer.from(text, 'utf16le').toString('utf16le')
