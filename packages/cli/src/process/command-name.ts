/** What a user types to start this program: hints name it as the user started it. */
import type { Environment } from '@breakfall/supervisor/platform'
import { currentFolderIfAny } from './current-folder.ts'
import { checkoutFolder } from './self.ts'

/** The first word of `scripts/start.mjs`, before those of the user. */
export const NPM_START = 'npm-start'

/** Pure. */
export function commandName(
  [, , first]: readonly string[],
  { env, cwd, checkout }: { readonly env: Environment; readonly cwd: string; readonly checkout: string },
): string {
  if (first === NPM_START) return cwd === checkout ? 'npm start --' : `npm --prefix ${shellQuoted(checkout)} start --`
  return env['npm_lifecycle_event'] === 'npx' ? 'npx breakfall' : 'breakfall'
}

/** A command as the user can type it, for a sentence that names one: `${cmd('show')} ${id}`. */
export const cmd = (words: string): string => `${TYPED} ${words}`

/**
 * For a sentence of the daemon or of another package, which cannot know how this program was started: `"breakfall up"` becomes what
 * this user types. They put a command in quotes, or after a colon.
 */
export const asTyped = (sentence: string, typed = TYPED): string =>
  sentence.replace(/(?<=["`]|: )breakfall(?= [a-z])/g, typed)

/** A path or a URL as one word of a shell. */
export const shellQuoted = (path: string): string =>
  /^[\w/.:@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`

// ---- details, in the order they are used above ----

const TYPED = commandName(process.argv, {
  env: process.env,
  cwd: currentFolderIfAny() ?? '',
  checkout: checkoutFolder.replace(/\/+$/, ''),
})
