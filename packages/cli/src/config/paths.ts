/** Where things are kept: the XDG folders, each overridable by its variable. */
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'

type Env = Readonly<Record<string, string | undefined>>

const base = (env: Env, name: string, ...fallback: string[]): string => {
  const value = env[name]
  // The specification: a relative path in these variables is to be ignored.
  return value !== undefined && value.startsWith('/') ? value : join(homeFolder(env) ?? noHome(name), ...fallback)
}

/** A relative HOME would make a cloned folder's files the user's own. Undefined: this user has none. */
export function homeFolder({ HOME = '' }: Env): string | undefined {
  if (HOME.startsWith('/')) return HOME
  try {
    return userInfo().homedir
  } catch {
    return undefined // a bare user id, as containers have them
  }
}

function noHome(name: string): never {
  throw new Fault('invalid_request', {
    error: `this user has no home folder; set HOME, or ${name}, to an absolute path`,
  })
}

export const userConfigFile = (env: Env): string =>
  join(base(env, 'XDG_CONFIG_HOME', '.config'), 'breakfall', 'config.toml')
export const defaultStateDir = (env: Env): string => join(base(env, 'XDG_STATE_HOME', '.local', 'state'), 'breakfall')
export const folderConfigFile = (folder: string): string => join(folder, 'breakfall.toml')
