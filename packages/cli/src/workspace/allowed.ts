/**
 * The folders that boxes may use. Callers of the API get what the operator allows, by a setting or a flag of a server. A user who
 * runs `breakfall run` in a folder allows that folder, and those of `--mount`, for the box of that session alone: the session is
 * created with a signature over them, and nothing is written down that another session could use.
 */
import { realpathSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { BoxCreate } from '@breakfall/wire'
import { FOLDER_KEY, signFolders } from '@breakfall/wire/node'
import { type BoxMountSetting, mountOf } from '../config/box.ts'
import type { Environment } from '@breakfall/supervisor/platform'
import { prepareStateDir, stateFileFault } from '../process/state-folder.ts'

/** The same box, which the runner of this state folder accepts wherever its folders are. */
export function signedBox(box: BoxCreate, stateDir: string): BoxCreate {
  const { workspace, mounts = [] } = box
  try {
    const folders = {
      workspace: workspace === undefined ? undefined : realpathSync(workspace),
      mounts: mounts.map(({ path, mode = 'ro' }) => ({ path: realpathSync(path), mode })),
    }
    return { ...box, grant: signFolders(join(prepareStateDir(stateDir), 'runner', FOLDER_KEY), folders) }
  } catch (error) {
    throw stateFileFault(error)
  }
}

/** The named folders as absolute paths. Throws if one is missing: it is most likely a typo. */
export function allowedFolders(named: readonly string[] | undefined, where: string): readonly string[] {
  return (named ?? []).map((folder) => {
    const path = resolve(folder)
    if (!isFolder(path))
      throw new Fault('invalid_request', {
        error: `${where} names ${path}, but there is no such folder; create it first`,
      })
    return path
  })
}

/** As a runner takes them. Throws if one is missing. */
export function allowedMounts(named: readonly string[], env: Environment): readonly string[] {
  const mounts = named.map((text) => mountOf(text, env))
  allowedFolders(
    mounts.map(({ path }) => path),
    '--allow-mount',
  )
  return mounts.map(mountText)
}

export const mountText = ({ path, mode }: BoxMountSetting): string => `${path}:${mode}`

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
