/**
 * Takes secrets out of what a child printed. Beside the shapes that `redact` knows: the values that we gave the child
 * ourselves under names that sound secret, and private keys that are printed over many lines.
 */
import { redact } from '@breakfall/faults'

export type Redactor = {
  readonly line: (text: string) => string
  readonly lines: (texts: readonly string[]) => readonly string[]
}

export function makeRedactor(env: Readonly<Record<string, string>> = {}): Redactor {
  const secrets = secretsOf(env)
  const line = (text: string): string => {
    let out = text
    for (const secret of secrets) out = out.replaceAll(secret, GONE)
    return redact(out)
  }
  return { line, lines: (texts) => withoutKeyBlocks(texts).map(line) }
}

// ---- details ----

const GONE = '[redacted]'
const SECRET_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|DSN|PRIVATE/i
const SECRET_CHARS_MIN = 6 // shorter values ("1", "true") would blacken innocent text

function secretsOf(env: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(env)
    .filter(([name, value]) => SECRET_NAME.test(name) && value.length >= SECRET_CHARS_MIN)
    .map(([, value]) => value)
    .toSorted((a, b) => b.length - a.length) // the longest first: one secret may contain another
}

/** A key block spans lines, so that no single line of its middle looks like a secret. */
function withoutKeyBlocks(texts: readonly string[]): readonly string[] {
  const out: string[] = []
  let inKey = false
  for (const text of texts) {
    const begins = text.includes('-----BEGIN ') && text.includes('PRIVATE KEY-----')
    if (begins) out.push(text.slice(0, text.indexOf('-----BEGIN ')) + GONE)
    else if (!inKey) out.push(text)
    if (begins) inKey = true
    if (text.includes('-----END ')) inKey = false
  }
  return out
}
