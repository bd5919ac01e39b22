/**
 * The rung "continue by prefill": what was shown of an unfinished answer and can be continued instead of asked for again.
 *
 * I1  Text only: never after reasoning, never with a tool call begun.
 * I2  Only where the profile knows a way and somebody named that profile; a server that refuses is not asked twice.
 */
import { PrefixGate, type Segment } from './prefix-gate.ts'
import { type Target, takesPrefill } from './target.ts'

export class KeptText {
  #text: string
  #isRefused = false

  constructor(text = '') {
    this.#text = text
  }

  /** The text to go on from, without the white space at its end, which servers refuse or tokenize otherwise. */
  get prefill(): string {
    return this.#text.trimEnd()
  }

  /** `kinds` is all that was read or shown of the answer, `shown` the text that would be kept. */
  mayResume(target: Pick<Target, 'api' | 'profile'>, kinds: readonly { kind: string }[], shown: string): boolean {
    if (this.#isRefused || !takesPrefill(target)) return false // I2
    if (kinds.some(({ kind }) => kind !== 'text')) return false // I1
    return (this.#text + shown).trim() !== ''
  }

  take(shown: string): void {
    this.#text += shown
  }

  /** What the continuation must begin with: the white space that was cut off, perhaps after an echo of the text. */
  gate(echo: boolean): PrefixGate {
    const trimmed = this.prefill
    const space: Segment[] = [{ kind: 'text', text: this.#text.slice(trimmed.length) }]
    const whole: Segment[] = [{ kind: 'text', text: this.#text }]
    return new PrefixGate(trimmed === '' ? [] : echo ? [space, whole] : [space])
  }

  refuse(): void {
    this.#isRefused = true
  }

  clear(): void {
    this.#text = ''
  }
}
