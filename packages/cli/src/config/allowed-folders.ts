/** The folders that the operator lets boxes use, by a setting or a flag of a server. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Environment } from '@breakfall/supervisor/platform'
import { type BoxMountSetting, mountOf } from './box.ts'

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

export const isMissing = ({ path }: { readonly path: string }): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true

// ---- details, in the order they are used above ----

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
