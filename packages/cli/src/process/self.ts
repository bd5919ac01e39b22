/** How this program starts another copy of itself: the same Node, the same flags, the same file. */
import { fileURLToPath } from 'node:url'

export const mainFile = fileURLToPath(new URL('../main.ts', import.meta.url))

/** The command that users run: it finds a Node that is new enough. */
export const launcherFile = fileURLToPath(new URL('../../bin/breakfall.mjs', import.meta.url))

export const checkoutFolder = fileURLToPath(new URL('../../../..', import.meta.url))

export function startArguments(): readonly string[] {
  return [...process.execArgv, mainFile]
}
