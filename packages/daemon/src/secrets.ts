/**
 * Keeps the secrets that this daemon knows out of everything that it says. Shapes are the redactor's; these are the values.
 *
 * I1  Of secrets that begin at the same place the longest goes, else the rest of it would stay: one may begin with another.
 * I2  A text that comes in pieces is judged as if it had come whole, wherever it is cut: what may be the beginning of a secret
 *     waits for what follows. That is nothing at all in nearly every piece, and never as much as the longest secret.
 */
import { redact } from '@breakfall/faults'

const GONE = '[redacted]'
const CHARS_MIN = 8 // shorter ones would take ordinary words along
const PLAIN_CHARS_MIN = 16 // and so would `lm-studio` or `not-needed`, which people put where no key is asked for
const KNOWN_MAX = 256 // the tokens of many tenants; a key that was replaced may still be quoted; what came long before it is no use to anybody

export class Secrets {
  /** As they are, and as a JSON text has them. */
  #known: readonly string[] = []
  /** The same as they stand in a JSON text of ours. */
  #inJson: readonly string[] = []
  #pattern = /(?!)/g

  /** Adds what is known now. Empty, short and plain ones are left out. */
  set(values: readonly (string | undefined)[]): void {
    const secrets = values.filter((value) => value !== undefined).filter(isSecret)
    const known = secrets.flatMap((value) => [value, escaped(value)])
    if (known.every((value) => this.#known.includes(value))) return
    this.#known = [...new Set([...known, ...this.#known])].slice(0, KNOWN_MAX)
    this.#inJson = this.#known.map(escaped)
    const longestFirst = this.#known.toSorted((a, b) => b.length - a.length) // I1
    this.#pattern = new RegExp(longestFirst.map((value) => RegExp.escape(value)).join('|'), 'g')
  }

  /** The text without any known secret. Cheap where there is none in it. */
  scrub(text: string): string {
    return this.#isKnownIn(text) ? text.replace(this.#pattern, GONE) : text
  }

  /** The same value without any known secret, in its texts and in its names. `json` is what it looks like as JSON. */
  scrubValue<T>(value: T, json: string): T {
    return this.#isIn(json) ? (this.#cleaned(value) as T) : value
  }

  /** For log lines, which are JSON: by value and by shape. */
  scrubLine(line: string): string {
    const end = line.endsWith('\n') ? '\n' : ''
    const json = line.trimEnd()
    return redact(this.#isIn(json) ? JSON.stringify(this.#cleaned(JSON.parse(json))) : json) + end
  }

  /** I2: what may be said of a text that is not over, without any secret, and the end of it that has to wait. */
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

  /** What was held of a text that is over: it was no secret, but it may be most of one that somebody cut off. */
  lastOf(held: string): string {
    const isCut = (secret: string): boolean => held.length * 2 >= secret.length && secret.startsWith(held)
    return held.length >= CHARS_MIN && this.#known.some(isCut) ? GONE : this.scrub(held)
  }

  #isKnownIn(text: string): boolean {
    return this.#known.some((secret) => text.includes(secret))
  }

  /** Where the longest end of the text begins that a secret begins with. */
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

/** One text that comes in pieces. A piece has a mark that says where it is from. */
export class SecretStream<Mark> {
  readonly #secrets: Secrets
  #held: { readonly text: string; readonly mark: Mark } | null = null

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  /** What has to wait, and the mark of the piece in which it begins, or of one before that. */
  get held(): { readonly text: string; readonly mark: Mark } | null {
    return this.#held
  }

  /** What may be said now, perhaps nothing, under the mark of the piece in which it begins. */
  push(text: string, mark: Mark): { readonly text: string; readonly mark: Mark } {
    const before = this.#held
    const { said, held } = this.#secrets.sayable(before === null ? text : before.text + text)
    const begins = before !== null && held.length > text.length ? before.mark : mark
    this.#held = held === '' ? null : { text: held, mark: begins }
    return { text: said, mark: before?.mark ?? mark }
  }

  /** The text is over: the rest of it. */
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
