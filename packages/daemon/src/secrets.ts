/**
 * Keeps the secrets that this daemon knows out of everything it outputs. The redactor knows shapes of secrets; this knows values.
 *
 * I1  Of secrets that start at the same position, the longest is removed: one secret may be a prefix of another.
 * I2  Text that arrives in chunks is treated like the whole text, wherever it is cut: a possible start of a secret is held back
 *     until more arrives. That is nothing for nearly every chunk, and never as much as the longest secret.
 */
import { redact } from '@breakfall/faults'

const GONE = '[redacted]'
const CHARS_MIN = 8 // shorter values would match ordinary words
const PLAIN_CHARS_MIN = 16 // and so would `lm-studio` or `not-needed`, which users set when no key is required
const KNOWN_MAX = 256 // enough for the tokens of many tenants; a replaced key may still be quoted, but not for long

export class Secrets {
  /** Plain, and escaped for JSON. */
  #known: readonly string[] = []
  /** The same, as they appear in our JSON. */
  #inJson: readonly string[] = []
  #pattern = /(?!)/g

  /** Adds secrets. Empty, short and plain values are ignored. */
  set(values: readonly (string | undefined)[]): void {
    const secrets = values.filter((value) => value !== undefined).filter(isSecret)
    const known = secrets.flatMap((value) => [value, escaped(value)])
    if (known.every((value) => this.#known.includes(value))) return
    this.#known = [...new Set([...known, ...this.#known])].slice(0, KNOWN_MAX)
    this.#inJson = this.#known.map(escaped)
    const longestFirst = this.#known.toSorted((a, b) => b.length - a.length) // I1
    this.#pattern = new RegExp(longestFirst.map((value) => RegExp.escape(value)).join('|'), 'g')
  }

  /** The text without any known secret. Cheap if it contains none. */
  scrub(text: string): string {
    return this.#isKnownIn(text) ? text.replace(this.#pattern, GONE) : text
  }

  /** The same value without any known secret in its strings and keys. `json` is the value as JSON. */
  scrubValue<T>(value: T, json: string): T {
    return this.#isIn(json) ? (this.#cleaned(value) as T) : value
  }

  /** For log lines, which are JSON: removes secrets by value and by shape. */
  scrubLine(line: string): string {
    const end = line.endsWith('\n') ? '\n' : ''
    const json = line.trimEnd()
    return redact(this.#isIn(json) ? JSON.stringify(this.#cleaned(JSON.parse(json))) : json) + end
  }

  /** I2: what may be shown of an unfinished text, without any secret, and the end that must be held back. */
  sayable(text: string): { readonly said: string; readonly held: string } {
    const hasSecret = this.#isKnownIn(text)
    let said = ''
    for (let at = 0; ;) {
      const heldFrom = this.#mayBegin(text, at)
      const found = hasSecret ? this.#find(text, at) : null
      if (found === null || found.index >= heldFrom)
        return { said: said + text.slice(at, heldFrom), held: text.slice(heldFrom) }
      said += text.slice(at, found.index) + GONE
      at = found.index + found[0].length
    }
  }

  /** The held end of a finished text: not a whole secret, but perhaps most of a truncated secret. */
  lastOf(held: string): string {
    const isCut = (secret: string): boolean => held.length * 2 >= secret.length && secret.startsWith(held)
    return held.length >= CHARS_MIN && this.#known.some(isCut) ? GONE : this.scrub(held)
  }

  #isKnownIn(text: string): boolean {
    return this.#known.some((secret) => text.includes(secret))
  }

  /** Start of the longest suffix of the text that is a prefix of a secret. */
  #mayBegin(text: string, from: number): number {
    let earliest = text.length
    for (const secret of this.#known) {
      const first = secret.charAt(0)
      let at = text.indexOf(first, Math.max(from, text.length - secret.length + 1))
      while (at !== -1 && at < earliest && !secret.startsWith(text.slice(at))) at = text.indexOf(first, at + 1)
      if (at !== -1 && at < earliest) earliest = at
    }
    return earliest
  }

  #find(text: string, from: number): RegExpExecArray | null {
    this.#pattern.lastIndex = from
    return this.#pattern.exec(text)
  }

  #isIn(json: string): boolean {
    return this.#inJson.some((secret) => json.includes(secret))
  }

  #cleaned(value: unknown): unknown {
    if (typeof value === 'string') return this.scrub(value)
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((entry) => this.#cleaned(entry))
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [this.scrub(name), this.#cleaned(entry)]))
  }
}

/** One text that arrives in chunks. A mark says which chunk a text came from. */
export class SecretStream<Mark> {
  readonly #secrets: Secrets
  #held: { readonly text: string; readonly mark: Mark } | null = null

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  /** What is held back, and the mark of its first chunk, or of an earlier one. */
  get held(): { readonly text: string; readonly mark: Mark } | null {
    return this.#held
  }

  /** What may be shown now, perhaps nothing, with the mark of its first chunk. */
  push(text: string, mark: Mark): { readonly text: string; readonly mark: Mark } {
    const before = this.#held
    const { said, held } = this.#secrets.sayable(before === null ? text : before.text + text)
    const begins = before !== null && held.length > text.length ? before.mark : mark
    this.#held = held === '' ? null : { text: held, mark: begins }
    return { text: said, mark: before?.mark ?? mark }
  }

  /** The text is complete: returns the rest. */
  end(): { readonly text: string; readonly mark: Mark } | null {
    const rest = this.#held
    this.#held = null
    return rest === null ? null : { ...rest, text: this.#secrets.lastOf(rest.text) }
  }
}

// ---- details ----

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1)

const isSecret = (value: string): boolean =>
  value.length >= PLAIN_CHARS_MIN || (value.length >= CHARS_MIN && !/^[a-z _-]*$/.test(value))
