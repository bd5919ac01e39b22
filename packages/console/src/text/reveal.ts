/** How text from models, tools and providers is shown: nothing in it hides. */
import { marked, reveal } from '@breakfall/wire/browser'

export { reveal }

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
export const printable = (text: string): string => text.replace(/(?![\t\n\r])\p{Cc}/gu, marked)

/** One line, cut to a length a list can show. */
export function oneLine(text: string, charsMax = 160): string {
  const line = reveal(text.trim().replaceAll(/\s+/g, ' '))
  return line.length <= charsMax ? line : `${line.slice(0, charsMax - 1).toWellFormed()}…`
}
