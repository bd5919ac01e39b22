/** What a path leads to, and what is below what. */
import { lstatSync, type Stats } from 'node:fs'
import { sep } from 'node:path'

/** Without following a link. Undefined if there is nothing, or nothing accessible: for a box it does not exist. */
export function statOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined // something on the way is not a folder or not accessible
  }
}

/** True for the folder itself and everything below it. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}
