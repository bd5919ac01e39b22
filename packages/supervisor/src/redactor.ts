/**
 * Takes secrets out of what a child printed. Beside the shapes that `redact` knows: the values that the child was given, or
 * has inherited from us, under names that sound secret, and private keys that are printed over many lines.
 */
import { redact } from '@breakfall/faults'

export type Redactor = (text: string) => string

export type Environments = {
  /** What the spec names. */
  readonly given?: Readonly<Record<string, string>>
  /** What came with our own environment. */
  readonly inherited?: Readonly<Record<string, string | undefined>>
}

export function makeRedactor({ given = {}, inherited = {} }: Environments = {}): Redactor {
  const secrets = [...secretsOf(given, isSecret), ...secretsOf(inherited, isInheritedSecret)].toSorted(
    (a, b) => b.length - a.length, // the longest first: one secret may contain another
  )
  return (text) => {
    let out = text
    for (const secret of secrets) out = out.replaceAll(secret, GONE)
    return redact(out)
  }
}

/**
 * Takes private keys out of a stream of lines. A key spans lines, no single line of its middle looks like a secret, and
 * whoever keeps only some of the lines may have lost the one that says what it is: so this comes before any keeping.
 */
export function keyBlockFilter(): (line: string) => string {
  let left = 0 // lines of the block that may still come; a block without an end must not swallow the rest
  return (line) => {
    const begin = line.indexOf('-----BEGIN ')
    if (begin !== -1 && line.includes('PRIVATE KEY-----', begin)) {
      left = line.includes('-----END ', begin) ? 0 : KEY_LINES_MAX
      return line.slice(0, begin) + GONE
    }
    if (left === 0) return line
    left = line.includes('-----END ') ? 0 : left - 1
    return GONE
  }
}

// ---- details ----

const GONE = '[redacted]'
const KEY_LINES_MAX = 120 // an RSA key of 16,384 bits has about as many
const SECRET_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|PRIVATE/i
const SECRET_CHARS_MIN = 6 // shorter values ("1", "true") would blacken innocent text

const isSecret = (value: string): boolean => value.length >= SECRET_CHARS_MIN

/** Nobody chose these names for us: SSH_AUTH_SOCK, TOKENIZERS_PARALLELISM and paths are no secrets. */
const isInheritedSecret = (value: string): boolean => isSecret(value) && !/^[/~.]|^(?:disabled|enabled)$/i.test(value)

function secretsOf(
  env: Readonly<Record<string, string | undefined>>,
  holds: (value: string) => boolean,
): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && SECRET_NAME.test(name) && holds(value) ? [value] : [],
  )
}
