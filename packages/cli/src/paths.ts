/** Where things are kept: the XDG folders, each overridable by its variable. */
import { userInfo } from 'node:os'
import { join } from 'node:path'

type Env = Readonly<Record<string, string | undefined>>

const base = (env: Env, name: string, ...fallback: string[]): string => {
  const value = env[name]
  // The specification: a relative path in these variables is to be ignored.
  return value !== undefined && value.startsWith('/') ? value : join(home(env), ...fallback)
}

/** A relative HOME would make a cloned folder's files the user's own. */
const home = ({ HOME = '' }: Env): string => (HOME.startsWith('/') ? HOME : userInfo().homedir)

export const userConfigFile = (env: Env): string =>
  join(base(env, 'XDG_CONFIG_HOME', '.config'), 'breakfall', 'config.toml')
export const defaultStateDir = (env: Env): string => join(base(env, 'XDG_STATE_HOME', '.local', 'state'), 'breakfall')
export const folderConfigFile = (folder: string): string => join(folder, 'breakfall.toml')
