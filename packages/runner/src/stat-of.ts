/** What is at a path, without following a link. Undefined if there is nothing, or nothing accessible: for a box it does not exist. */
import { lstatSync, type Stats } from 'node:fs'

export function statOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })
  } catch {
    return undefined // something on the way is not a folder or not accessible
  }
}
