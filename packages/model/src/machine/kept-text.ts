/**
 * Cuts an unfinished text at a point where its continuation proves itself. Pure.
 *
 * I1  The last word is not sent to the server. What comes back has to start with that word and the white space around it. A
 *     server that starts a new answer does not start with white space and that word, so two answers are never joined. A
 *     server that samples another word is asked from the start, which is always right.
 */
import { PrefixGate } from './prefix-gate.ts'

/** Whether a continuation of this text could be recognised as one. */
export const isContinuable = (text: string): boolean => seamOf(text) !== undefined

/** The text that is sent: everything up to the white space before the last word. */
export const prefillOf = (text: string): string => text.slice(0, seamOf(text) ?? 0)

/** Lets the continuation through once it has repeated what was cut off, or, with `echo`, perhaps the whole text. */
export function continuationGate(text: string, echo: boolean): PrefixGate {
  const seam = seamOf(text)
  if (seam === undefined) return new PrefixGate([])
  const cutOff = [{ kind: 'text', text: text.slice(seam) }] as const
  const whole = [{ kind: 'text', text }] as const
  return new PrefixGate(echo ? [cutOff, whole] : [cutOff])
}

// ---- details ----

const PROOF_CHARS_MAX = 80 // a model hardly repeats a longer word (a line of Chinese, a base64 blob) letter by letter

/** Index of the white space before the last word. Undefined if nothing would be left to send, or nothing would be proven. */
function seamOf(text: string): number | undefined {
  const trimmed = text.trimEnd()
  const from = Math.max(0, trimmed.length - PROOF_CHARS_MAX)
  const tail = trimmed.slice(from)
  const word = /\S+$/.exec(tail)?.[0] ?? ''
  if (word === '' || word === tail) return undefined
  const seam = trimmed.slice(0, trimmed.length - word.length).trimEnd().length
  // A new answer that starts with white space and this very word would look like a continuation.
  return seam === 0 || text.trimStart().startsWith(word) ? undefined : seam
}
