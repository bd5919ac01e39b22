/**
 * The rung "continue by prefill": what was shown of an unfinished answer and can be continued instead of asked for again.
 *
 * I1  Text only: never after reasoning, never with a tool call begun.
 * I2  Only where the profile knows a way and somebody named that profile; a server that refuses is not asked twice.
 * I3  A continuation proves itself. The last word is not sent, and what comes back has to begin with it and with the white
 *     space around it. A server that begins a new answer instead does not begin with white space and that word, so two answers
 *     are never put together; one that samples another word is asked from the start, which is always right.
 */
import type { AnswerRequest } from './answer.ts'
import { PrefixGate, type Segment } from './prefix-gate.ts'
import { type Target, takesPrefill, targetOf } from './target.ts'

export class KeptText {
  #text: string
  #isRefused = false

  constructor(text = '') {
    this.#text = text
  }

  /** The text to go on from, up to the white space before its last word. */
  get prefill(): string {
    return this.#text.slice(0, seamOf(this.#text) ?? 0)
  }

  /** `kinds` is all that was read or shown of the answer, `shown` the text that would be kept. */
  mayResume(target: Pick<Target, 'api' | 'profile'>, kinds: readonly { kind: string }[], shown: string): boolean {
    if (this.#isRefused || !takesPrefill(target)) return false // I2
    if (kinds.some(({ kind }) => kind !== 'text')) return false // I1
    return seamOf(this.#text + shown) !== undefined // I3
  }

  take(shown: string): void {
    this.#text += shown
  }

  /** What the continuation must begin with: what was cut off at the seam, perhaps after an echo of what was sent. */
  gate(echo: boolean): PrefixGate {
    const seam = seamOf(this.#text)
    if (seam === undefined) return new PrefixGate([])
    const proof: Segment[] = [{ kind: 'text', text: this.#text.slice(seam) }]
    const whole: Segment[] = [{ kind: 'text', text: this.#text }]
    return new PrefixGate(echo ? [proof, whole] : [proof])
  }

  refuse(): void {
    this.#isRefused = true
  }

  clear(): void {
    this.#text = ''
  }
}

/** Whether this text, which broke off, can be continued there. */
export const canContinue = (request: AnswerRequest, text: string): boolean =>
  takesPrefill(targetOf(request)) && seamOf(text) !== undefined

// ---- details ----

const PROOF_CHARS_MAX = 80 // a longer word (a line of Chinese, a base64 blob) would hardly be said again letter by letter

/** Where to cut: before the white space before the last word. Undefined where nothing would be left, or nothing proven. */
function seamOf(text: string): number | undefined {
  const trimmed = text.trimEnd()
  const from = Math.max(0, trimmed.length - PROOF_CHARS_MAX)
  const tail = trimmed.slice(from)
  const word = /\S+$/.exec(tail)?.[0] ?? ''
  if (word === '' || word === tail) return undefined
  const seam = trimmed.slice(0, trimmed.length - word.length).trimEnd().length
  // An answer that begins with that very word would look like its own continuation, were it to begin with white space too.
  return seam === 0 || text.trimStart().startsWith(word) ? undefined : seam
}
