/**
 * The folders that boxes may use. A user who runs `breakfall run` in a folder allows that folder: it is noted in the state folder,
 * and the daemon on this machine lets its runner use it. Callers of the API cannot add to the list.
 */
import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
import { type BoxMountSetting, mountOf } from '../config/box.ts'
import type { Env } from '../config/env.ts'
import { stateFileFault } from '../process/state-folder.ts'

const fileIn = (stateDir: string): string => join(stateDir, 'workspaces')

export function grantWorkspace(stateDir: string, folder: string): void {
  if (grantedWorkspaces(stateDir).includes(folder)) return
  const line = folder.includes('\n') ? JSON.stringify(folder) : folder
  try {
    appendFileSync(fileIn(stateDir), `${line}\n`, { mode: 0o600 })
  } catch (error) {
    throw stateFileFault(error)
  }
}

/** The granted folders that still exist. */
export function grantedWorkspaces(stateDir: string): readonly string[] {
  let text: string
  try {
    text = readFileSync(fileIn(stateDir), 'utf8')
  } catch {
    return [] // nothing granted yet
  }
  return [...new Set(text.split('\n').map(folderIn))].filter((folder) => folder !== '' && isFolder(folder))
}

/** A path with a line break is written as JSON; any other path starts with a slash. */
function folderIn(line: string): string {
  try {
    return line.startsWith('"') ? String(JSON.parse(line)) : line
  } catch {
    return '' // incomplete: it grants nothing
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
export function allowedMounts(named: readonly string[], env: Env): readonly string[] {
  const mounts = named.map((text) => mountOf(text, env))
  allowedFolders(
    mounts.map(({ path }) => path),
    '--allow-mount',
  )
  return mounts.map(mountText)
}

export const mountText = ({ path, mode }: BoxMountSetting): string => `${path}:${mode}`

const mountsIn = (stateDir: string): string => join(stateDir, 'mounts')

/** A folder named with --mount or in the configuration may be mounted into boxes on this machine. */
export function grantMounts(stateDir: string, mounts: readonly BoxMountSetting[]): void {
  const known = new Set(grantedMounts(stateDir))
  const lines = mounts.map(mountText).filter((text) => !known.has(text))
  if (lines.length === 0) return
  try {
    appendFileSync(mountsIn(stateDir), lines.map((text) => `${JSON.stringify(text)}\n`).join(''), { mode: 0o600 })
  } catch (error) {
    throw stateFileFault(error)
  }
}

/** The granted mounts whose folders still exist. */
export function grantedMounts(stateDir: string): readonly string[] {
  let text: string
  try {
    text = readFileSync(mountsIn(stateDir), 'utf8')
  } catch {
    return [] // nothing granted yet
  }
  const mounts = [...new Set(text.split('\n').map(folderIn))]
  return mounts.filter((mount) => mount !== '' && isFolder(mount.replace(/:r[ow]$/, '')))
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
