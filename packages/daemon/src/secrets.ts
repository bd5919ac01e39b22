/** Keeps the secrets that this daemon knows out of everything that it says. Shapes are the redactor's; these are the values. */
import { redact } from '@breakfall/faults'

const GONE = '[redacted]'
const CHARS_MIN = 8 // shorter ones would take ordinary words along

export class Secrets {
  #known: readonly string[] = []

  /** Replaces what is known. Empty and short ones are left out. */
  set(values: readonly (string | undefined)[]): void {
    const known = values.filter((value) => value !== undefined && value.length >= CHARS_MIN) as string[]
    this.#known = [...new Set(known.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]))]
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
