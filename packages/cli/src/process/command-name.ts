/** What a user types to start this program: hints name it as the user started it. */
import type { Environment } from '@breakfall/supervisor/platform'
import { shellQuoted } from '../render/shell-quoted.ts'
import { checkoutFolder } from './self.ts'
import { currentFolderIfAny } from '../workspace/work-folder.ts'

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

// ---- details ----

const TYPED = commandName(process.argv, {
  env: process.env,
  cwd: currentFolderIfAny() ?? '',
  checkout: checkoutFolder.replace(/\/+$/, ''),
})
