/** JSON that came from outside. Loose on purpose: the tests check every field they use. */

// oxlint-disable-next-line typescript/no-explicit-any
export type Json = any

/** The parsed value, or undefined if the text is not JSON. */
export function jsonIn(text: string): Json {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the caller looks at the text
  }
}
