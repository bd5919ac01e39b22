/** A diagnosis in one go: what it is and what to do, without saying the same twice. Pure. */

export function headline(message: string, advice: string): string {
  const [begin = ''] = advice.split(/(?<=[.;])\s/)
  const [said, again] = [wordsOf(message), wordsOf(begin)]
  if (again.length === 0) return message
  if (isWithin(said, again)) return advice
  const rest = isWithin(again, said) ? advice.slice(begin.length).trim() : advice
  return rest === '' ? message : `${message}. ${rest}`
}

// ---- details ----

const FILLERS = new Set(['a', 'an', 'the', 'it', 'its', 'is', 'was', 'are', 'this', 'that', 'of'])

const wordsOf = (text: string): readonly string[] =>
  (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => !FILLERS.has(word))

const isWithin = (words: readonly string[], others: readonly string[]): boolean =>
  words.every((word) => others.includes(word))
