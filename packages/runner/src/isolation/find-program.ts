/** Finds programs on the PATH. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Looks on the PATH and then in `usual`. */
export function findProgram(name: string, path: string, usual: readonly string[] = []): string | null {
  for (const folder of [...path.split(delimiter), ...usual]) {
    if (!folder.startsWith('/')) continue // a relative entry would find another program in every folder
    try {
      accessSync(join(folder, name), constants.X_OK)
      return join(folder, name)
    } catch {
      // Not in this folder.
    }
  }
  return null
}

export const USUAL_FOLDERS = ['/usr/bin', '/bin']
