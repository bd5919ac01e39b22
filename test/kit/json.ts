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

/** Passes a value on without its type, for tests that send what the compiler would refuse and for types that two libraries declare differently. */
export const untyped = (value: unknown): Json => value
