/** Where Breakfall's own files are in a user's folders. */
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { type Environment, USER_FOLDERS, userFolder } from '@breakfall/supervisor/platform'

const base = (kind: 'config' | 'state', env: Environment): string =>
  userFolder(kind, env) ?? noHome(USER_FOLDERS[kind][0])

function noHome(name: string): never {
  throw new Fault('invalid_request', {
    error: `This user has no home folder; set HOME, or ${name}, to an absolute path`,
  })
}

export const userConfigFile = (env: Environment): string => join(base('config', env), 'breakfall', 'config.toml')
export const credentialsFile = (env: Environment): string => join(base('config', env), 'breakfall', 'credentials.toml')
export const defaultStateDir = (env: Environment): string => join(base('state', env), 'breakfall')
export const folderConfigFile = (folder: string): string => join(folder, 'breakfall.toml')
