/** Joins the message and the advice of a diagnosis, without saying the same thing twice. Pure. */

export function headline(message: string, advice: string): string {
  const [firstSentence = ''] = advice.split(/(?<=[.;])\s/)
  const [inMessage, inAdvice] = [wordsOf(message), wordsOf(firstSentence)]
  if (inAdvice.length === 0) return message
  if (isWithin(inMessage, inAdvice)) return advice
  const rest = isWithin(inAdvice, inMessage) ? advice.slice(firstSentence.length).trim() : advice
  return rest === '' ? message : `${message}. ${rest}`
}

// ---- details ----

const FILLERS = new Set(['a', 'an', 'the', 'it', 'its', 'is', 'was', 'are', 'this', 'that', 'of'])

const wordsOf = (text: string): readonly string[] =>
  (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !FILLERS.has(word))

const isWithin = (words: readonly string[], others: readonly string[]): boolean =>
  words.every((word) => others.includes(word))
