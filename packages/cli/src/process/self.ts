/** How this program starts another copy of itself: the same Node, the same flags, the same file. */
import { fileURLToPath } from 'node:url'

export const mainFile = fileURLToPath(new URL('../main.ts', import.meta.url))

export function startArguments(): readonly string[] {
  return [...process.execArgv, mainFile]
}
