/** Cuts a text into the pieces in which a model would send it: a few characters, the same cuts every time. Never inside a character. */
export function* pieces(text: string, charsMax = 12): Iterable<string> {
  const characters = Array.from(text)
  for (let from = 0; from < characters.length; from += charsMax) yield characters.slice(from, from + charsMax).join('')
}
