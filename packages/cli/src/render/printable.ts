/**
 * Makes text safe for a terminal. Prompts, model output, tool output, file names and server errors can contain sequences that
 * move the cursor, rename the window or type input: only their text is shown.
 */
import { stripVTControlCharacters } from 'node:util'

/** Keeps text, line breaks and tabs. */
export function withoutControls(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}/gu, (c) => (c === '\n' || c === '\t' ? c : ''))
}

/** Also keeps the few colours that Breakfall uses; none of them hides text or blinks. */
export function printable(text: string): string {
  return text
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : withoutControls(part)))
    .join('')
}

/** JSON escapes control characters below the space; terminals also obey some above `~`. */
export const printableJson = (json: string): string =>
  json.replace(/[\x7f-\x9f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)

// eslint-disable-next-line no-control-regex -- it matches the escape character on purpose
const COLOUR = /(\x1b\[(?:[12]|22|3[1-6]|39)m)/
