/**
 * Cuts a text between words. Who knows a secret by its value finds it in what is left whole or not at all, never half of it;
 * shapes are judged before (see `redact.ts`).
 *
 * I1  At least half of what was asked for is shown: what goes on for longer without an end is no key, and no reason to show less.
 */

/** The beginning of a text, at most that long. */
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

const WORD_CHARS_MAX = 256 // longer than the keys of all providers but tokens that have a shape

const lookedBack = (charsMax: number): number => Math.min(WORD_CHARS_MAX, Math.floor(charsMax / 2)) // I1

/** True where no word goes on over the place. */
const isBetween = (text: string, at: number): boolean => !isWord(text.charAt(at - 1)) || !isWord(text.charAt(at))

const isWord = (char: string): boolean => char !== '' && !/[\s"'`<>(){}[\],;|\\…]/.test(char)
