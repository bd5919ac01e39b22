/**
 * Removes secrets from a child's output: the shapes that `redact` knows, the values of environment variables whose names sound
 * secret, and private keys that span several lines.
 */
import { redact } from '@breakfall/faults'

export type Redactor = (text: string) => string

export type Environments = {
  /** Variables from the spec. */
  readonly given?: Readonly<Record<string, string>>
  /** Variables from our own environment. */
  readonly inherited?: Readonly<Record<string, string | undefined>>
}

export function makeRedactor({ given = {}, inherited = {} }: Environments = {}): Redactor {
  const secrets = [...secretsOf(given, isSecret), ...secretsOf(inherited, isInheritedSecret)].toSorted(
    (a, b) => b.length - a.length, // the longest first: one secret may contain another
  )
  return (text) => {
    let out = text
    for (const secret of secrets) out = out.replaceAll(secret, REDACTED)
    return redact(out)
  }
}

/**
 * Removes private keys from a stream of lines. A key spans several lines, and a line from its middle does not look like a
 * secret. Apply this before dropping any lines: only the first line identifies the key.
 */
export function keyBlockFilter(): (line: string) => string {
  let linesLeft = 0 // of the block; a block without an end must not swallow the rest
  return (line) => {
    const begin = line.indexOf('-----BEGIN ')
    if (begin !== -1 && line.includes('PRIVATE KEY-----', begin)) {
      linesLeft = line.includes('-----END ', begin) ? 0 : KEY_LINES_MAX
      return line.slice(0, begin) + REDACTED
    }
    if (linesLeft === 0) return line
    linesLeft = line.includes('-----END ') ? 0 : linesLeft - 1
    return REDACTED
  }
}

// ---- details ----

const REDACTED = '[redacted]'
const KEY_LINES_MAX = 120 // about the length of an RSA key of 16,384 bits
const SECRET_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|PRIVATE/i
const SECRET_CHARS_MIN = 6 // shorter values ("1", "true") would redact innocent text

const isSecret = (value: string): boolean => value.length >= SECRET_CHARS_MIN

/** Inherited names are less telling: SSH_AUTH_SOCK, TOKENIZERS_PARALLELISM and paths are not secrets. */
const isInheritedSecret = (value: string): boolean => isSecret(value) && !/^[/~.]|^(?:disabled|enabled)$/i.test(value)

function secretsOf(
  env: Readonly<Record<string, string | undefined>>,
  holds: (value: string) => boolean,
): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && SECRET_NAME.test(name) && holds(value) ? [value] : [],
  )
}
