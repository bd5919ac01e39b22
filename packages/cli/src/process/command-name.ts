/** What a user types to start this program: hints name it as the user started it. */
import type { Env } from '../config/env.ts'
import { COMMANDS } from '../command-line/command-names.ts'
import { shellQuoted } from '../render/shell-quoted.ts'
import { checkoutFolder } from './self.ts'

/** The first word of `scripts/start.mjs`, before those of the user. */
export const NPM_START = 'npm-start'

/** Pure. */
export function commandName(
  [, , first]: readonly string[],
  { env, cwd, checkout }: { readonly env: Env; readonly cwd: string; readonly checkout: string },
): string {
  if (first === NPM_START) return cwd === checkout ? 'npm start --' : `npm --prefix ${shellQuoted(checkout)} start --`
  return env['npm_lifecycle_event'] === 'npx' ? 'npx breakfall' : 'breakfall'
}

/** `breakfall show ID` in a text of ours, as the user can type it. */
export const asTyped = (text: string, command: string = here()): string =>
  command === 'breakfall' ? text : text.replaceAll(COMMAND, () => command)

// ---- details ----

/** Before the name of a command or a flag, and neither at the end of a path nor after a flag of another program. */
const COMMAND = new RegExp(`(?<![\\w/.=-]|-U )breakfall(?= (?:--[a-z]|(?:${COMMANDS.join('|')})\\b))`, 'g')

const here = (): string =>
  commandName(process.argv, { env: process.env, cwd: folder(), checkout: checkoutFolder.replace(/\/+$/, '') })

function folder(): string {
  try {
    return process.cwd()
  } catch {
    return '' // it was removed
  }
}
