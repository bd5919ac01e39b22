/** Cuts a text into small chunks, as a model streams it: always at the same places, never inside a character. */

const CHARS = 12
const CHUNKS_MAX = 2_000 // a very long answer comes in larger ones

export function* chunksOf(text: string, charsMax?: number): Iterable<string> {
  const characters = Array.from(text)
  const chars = charsMax ?? Math.max(CHARS, Math.ceil(characters.length / CHUNKS_MAX))
  for (let from = 0; from < characters.length; from += chars) yield characters.slice(from, from + chars).join('')
}
