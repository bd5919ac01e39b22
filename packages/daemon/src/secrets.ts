/** Keeps the secrets that this daemon knows out of everything that it says. Shapes are the redactor's; these are the values. */
import { redact } from '@breakfall/faults'

const GONE = '[redacted]'
const CHARS_MIN = 8 // shorter ones would take ordinary words along
const PLAIN_CHARS_MIN = 16 // and so would `lm-studio` or `not-needed`, which people put where no key is asked for
const KNOWN_MAX = 64 // a key that was replaced may still be quoted; what came long before it is no use to anybody

export class Secrets {
  #known: readonly string[] = []

  /** Adds what is known now. Empty, short and plain ones are left out. */
  set(values: readonly (string | undefined)[]): void {
    const secrets = values.filter((value) => value !== undefined && isSecret(value)) as string[]
    const known = secrets.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)])
    if (known.every((value) => this.#known.includes(value))) return
    this.#known = [...new Set([...known, ...this.#known])].slice(0, KNOWN_MAX)
  }

  /** The text without any known secret. Cheap where there is none in it. */
  scrub(text: string): string {
    let out = text
    for (const secret of this.#known) if (out.includes(secret)) out = out.replaceAll(secret, GONE)
    return out
  }

  /** For log lines: by value and by shape. */
  scrubLine(line: string): string {
    const end = line.endsWith('\n') ? '\n' : ''
    return redact(this.scrub(line.trimEnd())) + end
  }
}

const isSecret = (value: string): boolean =>
  value.length >= PLAIN_CHARS_MIN || (value.length >= CHARS_MIN && !/^[a-z _-]*$/.test(value))
