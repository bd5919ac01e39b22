/**
 * Cuts an unfinished text at a point where its continuation proves itself. Pure.
 *
 * I1  The last words are not sent to the server. What comes back has to start with those words and the white space around
 *     them. That is evidence, not certainty: a server that starts over says them at that very place only if its new answer
 *     happens to begin with them. A server that words them differently is asked from the start, which is always right.
 */
import { PrefixGate } from './prefix-gate.ts'

/** Whether a continuation of this text could be recognised as one. */
export const isContinuable = (text: string): boolean => seamOf(text) !== undefined

/** The text that is sent: everything up to the white space before the proof. */
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

/** One common word proves nothing: many answers begin with " I". Nobody begins an answer with these many words by chance. */
const PROOF_WORDS_MIN = 4
const PROOF_CHARS_MIN = 20
/** A model hardly repeats more (a line of Chinese, a base64 blob) letter by letter. */
const PROOF_CHARS_MAX = 200

/** Index of the white space before the proof. Undefined if nothing would be left to send, or nothing would be proven. */
function seamOf(text: string): number | undefined {
  const trimmed = text.trimEnd()
  const from = Math.max(0, trimmed.length - PROOF_CHARS_MAX)
  const starts = Array.from(trimmed.slice(from).matchAll(/(?<=\s)\S+/g), ({ index }) => from + index).reverse()
  const start = starts.find((at, index) => index + 1 >= PROOF_WORDS_MIN && trimmed.length - at >= PROOF_CHARS_MIN)
  if (start === undefined) return undefined
  const seam = trimmed.slice(0, start).trimEnd().length
  // A new answer that starts with white space and these very words would look like a continuation.
  return seam === 0 || text.trimStart().startsWith(trimmed.slice(start)) ? undefined : seam
}
