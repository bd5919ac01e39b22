/** The folder that the program was started in. It may have been removed since. */
import { Fault } from '@breakfall/faults'

/** The current folder. Throws if it was removed. */
export function currentFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new Fault('invalid_request', {
      error: 'The current folder no longer exists; change to another one',
      cause,
    })
  }
}

/** Undefined if the current folder was removed. */
export function currentFolderIfAny(): string | undefined {
  try {
    return process.cwd()
  } catch {
    return undefined // removed: code that needs it calls currentFolder
  }
}
