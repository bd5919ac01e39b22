/**
 * Folders in which this user has asked for runs. Whoever runs `breakfall run` in a folder allows that folder, so it is noted in
 * the state folder, and the daemon on this machine lets its runner use it. Callers of the API cannot add to the list.
 */
import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fault } from '@breakfall/faults'

const fileIn = (stateDir: string): string => join(stateDir, 'workspaces')

export function grantWorkspace(stateDir: string, folder: string): void {
  if (folder.includes('\n') || grantedWorkspaces(stateDir).includes(folder)) return
  appendFileSync(fileIn(stateDir), `${folder}\n`, { mode: 0o600 })
}

/** Those that are still folders. */
export function grantedWorkspaces(stateDir: string): readonly string[] {
  let text: string
  try {
    text = readFileSync(fileIn(stateDir), 'utf8')
  } catch {
    return [] // nothing was granted yet
  }
  return [...new Set(text.split('\n'))].filter((folder) => folder !== '' && isFolder(folder))
}

/** Folders that somebody names to be allowed, as absolute paths. A missing one is a slip, and is said before anything starts. */
export function allowedFolders(named: readonly string[] | undefined, where: string): readonly string[] {
  return (named ?? []).map((folder) => {
    const path = resolve(folder)
    if (!isFolder(path))
      throw new Fault('invalid_request', {
        error: `${where} names ${path}, but there is no such folder; make it first`,
      })
    return path
  })
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
