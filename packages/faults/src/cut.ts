/**
 * Cuts a text between words. A secret that is known by its value is then either whole in the text or absent, never half there.
 * Secrets that are known by their shape were redacted before (see `redact.ts`).
 *
 * I1  At least half of the requested length is shown: a word longer than that is not a key.
 */

/** The start of a text, at most that long. */
export function cutStart(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  for (let end = charsMax; end > charsMax - lookedBack(charsMax); end -= 1)
    if (isBetween(text, end)) return text.slice(0, end)
  return text.slice(0, charsMax)
}

/** The end of a text, at most that long. */
export function cutEnd(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text
  const first = text.length - charsMax
  for (let start = first; start < first + lookedBack(charsMax); start += 1)
    if (isBetween(text, start)) return text.slice(start)
  return text.slice(first)
}

// ---- details ----

const WORD_CHARS_MAX = 256 // longer than any provider's key, except tokens with a known shape

const lookedBack = (charsMax: number): number => Math.min(WORD_CHARS_MAX, Math.floor(charsMax / 2)) // I1

/** True if no word spans this position. */
const isBetween = (text: string, at: number): boolean => !isWord(text.charAt(at - 1)) || !isWord(text.charAt(at))

const isWord = (char: string): boolean => char !== '' && !/[\s"'`<>(){}[\],;|\\…]/.test(char)
