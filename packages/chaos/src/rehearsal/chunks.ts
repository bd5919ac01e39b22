/** Cuts a text into small chunks, as a model streams it: always at the same places, never inside a character. */
export function* chunksOf(text: string, charsMax = 12): Iterable<string> {
  const characters = Array.from(text)
  for (let from = 0; from < characters.length; from += charsMax) yield characters.slice(from, from + charsMax).join('')
}
