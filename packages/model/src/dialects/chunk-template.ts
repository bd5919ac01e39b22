/**
 * Reads a frame that differs from an earlier one only in its text, without parsing it again. Nearly every frame of a
 * streamed answer is like that, and parsing is most of the cost of reading one.
 *
 * I1  Exact or nothing: a frame matches only if its JSON would parse to the earlier frame with another text. The text is the
 *     content of a string literal; without a quote, backslash or control character in it, it is that string and no more.
 * I2  The strings kept are copies, not slices that would keep the whole read of the socket alive.
 */
import { flattened } from '../lib/flat-text.ts'
import { fixed, FORMS, RunPattern } from './run-pattern.ts'

/** Several frames, one after the other, that differ only in their text. */
export type TextRun = {
  /** The text of all. */
  readonly text: string
  readonly events: number
  /** The index after the last of them. */
  readonly to: number
}

export class ChunkTemplate {
  #head = ''
  #before = ''
  #after = ''
  /** The same for frames in a stream, and how many characters are before the first text and between two texts. */
  readonly #runs = new RunPattern()
  #charsBefore = 0
  #charsBetween = 0

  /** The text of the frame, or undefined if the frame has to be parsed. */
  match(data: string): string | undefined {
    const before = this.#before
    const after = this.#after
    const length = data.length - before.length - after.length
    // Comparing slices is one operation; startsWith and endsWith go character by character and cost ten times that.
    if (before === '' || length <= 0 || data.slice(0, before.length) !== before) return undefined
    if (data.slice(before.length + length) !== after) return undefined
    const text = data.slice(before.length, before.length + length)
    if (!isPlain(text)) return undefined // I1
    this.#runs.seen(() => fixed(this.#head + before) + FORMS.text + fixed(`${after}${LINES_END}`))
    return copied(text)
  }

  /** The frames from `from` on, up to the first that has to be parsed. None before a few have matched. */
  run(text: string, from: number): TextRun | undefined {
    const to = this.#runs.end(text, from)
    if (to === from) return undefined
    const texts: string[] = []
    for (let start = from + this.#charsBefore; start < to;) {
      const quote = text.indexOf('"', start)
      texts.push(text.slice(start, quote))
      start = quote + this.#charsBetween
    }
    return { text: joined(texts), events: texts.length, to }
  }

  /**
   * `data` was parsed, and all it says is that `text` is the value of `key`. False if that cannot be used. `head`: what is before
   * the data.
   */
  learn(data: string, key: string, text: string, head = ''): boolean {
    const name = `"${key}":`
    const at = data.indexOf(name)
    if (at === -1 || data.includes(name, at + 1)) return false // I1: which of them it was would be a guess
    const quote = data.indexOf('"', at + name.length)
    if (data.slice(at + name.length, quote).trim() !== '' || !data.startsWith(`${text}"`, quote + 1)) return false
    const [before, after] = [data.slice(0, quote + 1), data.slice(quote + 1 + text.length)]
    if (before === this.#before && after === this.#after && head === this.#head) return true
    this.#head = head
    this.#before = copied(before)
    this.#after = copied(after)
    this.#charsBefore = head.length + before.length
    this.#charsBetween = after.length + LINES_END.length + this.#charsBefore
    this.#runs.forget()
    return true
  }
}

// ---- also for other templates ----

/** Whether a text in quotes is the JSON of that text. */
export function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 0x20 || code === 0x22 || code === 0x5c) return false
  }
  return true
}

/** What ends an event in a stream. */
export const LINES_END = '\n\n'

/** V8 copies shorter substrings anyway. */
const SLICED_CHARS_MIN = 13

export const copied = (text: string): string => (text.length < SLICED_CHARS_MIN ? text : flattened(text)) // I2

/** The pieces of a run as one text. */
export const joined = (texts: readonly string[]): string =>
  texts.length === 1 ? copied(texts[0] ?? '') : texts.join('')
