/**
 * The folders that boxes may use. A user who runs `breakfall run` in a folder allows that folder: it is noted in the state folder,
 * and the daemon on this machine lets its runner use it. Callers of the API cannot add to the list.
 */
import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fault } from '@breakfall/faults'
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

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
