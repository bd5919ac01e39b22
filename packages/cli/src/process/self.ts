/** This program: its files, its version, and how it starts another copy of itself with the same Node and the same flags. */
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import manifest from '../../package.json' with { type: 'json' }

/** `main.ts` in the checkout, `main.js` in the published package. */
export const mainFile = fileURLToPath(new URL(`../main${extname(import.meta.filename)}`, import.meta.url))

/** The command that users run: it finds a Node that is new enough. */
export const launcherFile = fileURLToPath(new URL('../../bin/breakfall.mjs', import.meta.url))

/** The checkout, or the folder of the project that has the package installed. */
export const checkoutFolder = fileURLToPath(new URL('../../../..', import.meta.url))

export function startArguments(): readonly string[] {
  return [...process.execArgv, mainFile]
}

/** All packages share it. */
export const version: string = manifest.version

/** `breakfall` if it was published, `@breakfall/cli` in a checkout. */
export const packageName: string = manifest.name
