/** Makes invisible characters visible in commands, paths and titles: they can hide what a line really does. */

// Controls, zero-width characters, and everything that changes the direction of text. A zero-width joiner inside an emoji stays.
const HIDDEN =
  /(?![\t\n])\p{Cc}|[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|(?<!\p{Extended_Pictographic}\ufe0f?)\u200d|[\u{e0000}-\u{e007f}]/gu

export const reveal = (text: string): string => text.replace(HIDDEN, mark)

/** Whatever shows these takes care of them itself, or passes them on as they are. */
const WHOLE = new Set(['text', 'prompt', 'arguments', 'errorRaw', 'page', 'tokenFile', 'workspaces'])

/** The same value, with every name and sentence in it revealed: those come from models, servers and providers too. */
export function revealed(value: unknown, name = ''): unknown {
  if (WHOLE.has(name)) return value
  if (typeof value === 'string') return reveal(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((one) => revealed(one))
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, revealed(one, key)]))
}

/** What went wrong, as the daemon or the browser says it. */
export const sentenceOf = (error: unknown): string => reveal(error instanceof Error ? error.message : String(error))

/** For text panes: line breaks and tabs are text, directions are isolated by CSS, the rest would be invisible. */
export const printable = (text: string): string => text.replace(/(?![\t\n\r])\p{Cc}/gu, mark)

/** One line, cut to a length a list can show. */
export function oneLine(text: string, charsMax = 160): string {
  const line = reveal(text.trim().replaceAll(/\s+/g, ' '))
  return line.length <= charsMax ? line : `${line.slice(0, charsMax - 1).toWellFormed()}…`
}

const mark = (hidden: string): string =>
  `⟦U+${(hidden.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟧`
