/**
 * The keys that `breakfall login` stored: `credentials.toml` beside the user's config.toml.
 *
 * I1  Only its owner can read it (0600), also while it is being written, and a crash leaves the old or the new file.
 */
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import { body, providerName, text } from '@breakfall/wire/internal'
import { type Environment, replaceFile } from '@breakfall/supervisor/platform'
import { parse, stringify } from 'smol-toml'
import { z } from 'zod'
import { credentialsFile } from './paths.ts'
import { readBounded } from './read-bounded.ts'
import { cmd } from '../process/command-name.ts'

/** Keys by provider. */
export type Credentials = Readonly<Record<string, string>>

export function readCredentials(env: Environment): Credentials {
  const file = credentialsFile(env)
  const content = readBounded(file)
  if (content === undefined) return {}
  try {
    const tables = credentialsSchema.parse(parse(content))
    return Object.fromEntries(Object.entries(tables).map(([name, { apiKey }]) => [name, apiKey]))
  } catch (cause) {
    // The parser's message quotes the line, and with it perhaps a key.
    const error = `${file} is damaged. Remove it, and store your keys again: ${cmd('login')} NAME`
    throw new Fault('invalid_request', {
      error,
      errorRaw: error,
      cause: cause instanceof z.ZodError ? cause : undefined,
    })
  }
}

/** Returns the file. */
export function storeKey(env: Environment, name: string, apiKey: string): string {
  return writeCredentials(env, { ...readCredentials(env), [name]: apiKey })
}

/** False if there was no key of that name. */
export function removeKey(env: Environment, name: string): boolean {
  const stored = readCredentials(env)
  const { [name]: _, ...rest } = stored
  const isStored = Object.hasOwn(stored, name)
  if (isStored) writeCredentials(env, rest)
  return isStored
}

/** Undefined if only its owner can read it, or if there is none. */
export function looseMode(env: Environment): string | undefined {
  const mode = statSync(credentialsFile(env), { throwIfNoEntry: false })?.mode ?? 0
  return (mode & 0o077) === 0 ? undefined : `0${(mode & 0o777).toString(8)}`
}

// ---- details ----

const credentialsSchema = z.record(providerName(), body({ apiKey: text(8_192, 'a key') }))

/** I1 */
function writeCredentials(env: Environment, keys: Credentials): string {
  const file = credentialsFile(env)
  const tables = Object.fromEntries(Object.entries(keys).map(([name, apiKey]) => [name, { apiKey }]))
  const content = `# Keys that "breakfall login" stored. Keep this file to yourself.\n${stringify(tables)}`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    replaceFile(file, content, { isDurable: true, isShared: true })
    return file
  } catch (cause) {
    throw new Fault('invalid_request', { error: `Cannot write ${file}; no key was changed`, cause })
  }
}
