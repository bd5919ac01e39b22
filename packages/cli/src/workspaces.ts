/**
 * Folders in which this user has asked for runs. Whoever runs `breakfall run` in a folder allows that folder, so it is noted in
 * the state folder, and the daemon on this machine lets its runner use it. Callers of the API cannot add to the list.
 */
import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

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

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
