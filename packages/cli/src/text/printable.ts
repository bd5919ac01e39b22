/**
 * Makes text safe for a terminal. Prompts, model output, tool output, file names and server errors can contain sequences that
 * move the cursor, rename the window or type input: only their text is shown.
 */
import { stripVTControlCharacters } from 'node:util'
import { marked } from '@breakfall/wire/browser'

/** Keeps text, line breaks and tabs. Characters that would reorder or hide text are shown by their code, as in the console. */
export function withoutControls(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\p{Cc}/gu, (c) => (c === '\n' || c === '\t' ? c : ''))
    .replace(DECEIVING, marked)
}

/** Also keeps the few colours that Breakfall uses; none of them hides text or blinks. */
export function printable(text: string): string {
  return text
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : withoutControls(part)))
    .join('')
}

/** JSON escapes control characters below the space; terminals also obey some above `~`, and some reorder text. */
export const printableJson = (json: string): string =>
  json.replace(
    /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g,
    (c) => `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )

// ---- details ----

/** Embeddings, overrides and isolates change the order of what is shown; tags are invisible letters. */
const DECEIVING = /[\u202a-\u202e\u2066-\u2069]|[\u{e0000}-\u{e007f}]/gu

// eslint-disable-next-line no-control-regex -- it matches the escape character on purpose
const COLOUR = /(\x1b\[(?:[12]|22|3[1-6]|39)m)/
