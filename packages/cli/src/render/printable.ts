/**
 * What may reach a terminal. Prompts, a model's words, a tool's output, file names and server errors may hold sequences that
 * move the cursor, rename the window or answer in the person's name: only their text is shown.
 */
import { stripVTControlCharacters } from 'node:util'

/** Text, line breaks and tabs. */
export function withoutControls(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}/gu, (c) => (c === '\n' || c === '\t' ? c : ''))
}

/** The same, but for the few colours that Breakfall itself uses: what hides or blinks is not among them. */
export function printable(text: string): string {
  return text
    .split(COLOUR)
    .map((part, index) => (index % 2 === 1 ? part : withoutControls(part)))
    .join('')
}

/** JSON escapes what is below the space; a terminal obeys some of what is above `~` as well. */
export const printableJson = (json: string): string =>
  json.replace(/[\x7f-\x9f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)

// eslint-disable-next-line no-control-regex -- the escape character is what this is about
const COLOUR = /(\x1b\[(?:[12]|22|3[1-6]|39)m)/
