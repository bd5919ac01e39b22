/**
 * Takes secrets out of what a child printed. Beside the shapes that `redact` knows: the values that we gave the child
 * ourselves under names that sound secret, and private keys that are printed over many lines.
 */
import { redact } from '@breakfall/faults'

export type Redactor = (text: string) => string

export function makeRedactor(env: Readonly<Record<string, string>> = {}): Redactor {
  const secrets = secretsOf(env)
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

function secretsOf(env: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(env)
    .filter(([name, value]) => SECRET_NAME.test(name) && value.length >= SECRET_CHARS_MIN)
    .map(([, value]) => value)
    .toSorted((a, b) => b.length - a.length) // the longest first: one secret may contain another
}
