/** Default locations: the XDG folders, each with its environment variable. */
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'

type Env = Readonly<Record<string, string | undefined>>

const base = (env: Env, name: string, ...fallback: string[]): string => {
  const value = env[name]
  // The XDG specification says to ignore relative paths in these variables.
  return value !== undefined && value.startsWith('/') ? value : join(homeFolder(env) ?? noHome(name), ...fallback)
}

/** Ignores a relative HOME, which would make a clone's files count as the user's own. Undefined: the user has no home folder. */
export function homeFolder({ HOME = '' }: Env): string | undefined {
  if (HOME.startsWith('/')) return HOME
  try {
    return userInfo().homedir
  } catch {
    return undefined // a user id without an account, as in containers
  }
}

function noHome(name: string): never {
  throw new Fault('invalid_request', {
    error: `This user has no home folder; set HOME, or ${name}, to an absolute path`,
  })
}

export const userConfigFile = (env: Env): string =>
  join(base(env, 'XDG_CONFIG_HOME', '.config'), 'breakfall', 'config.toml')
export const credentialsFile = (env: Env): string =>
  join(base(env, 'XDG_CONFIG_HOME', '.config'), 'breakfall', 'credentials.toml')
export const defaultStateDir = (env: Env): string => join(base(env, 'XDG_STATE_HOME', '.local', 'state'), 'breakfall')
export const folderConfigFile = (folder: string): string => join(folder, 'breakfall.toml')
