/** The folder that a run works in: whether it can be one, said before anything is asked of a model. */
import { accessSync, constants, statSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { homeFolder } from '../config/paths.ts'

/** The current folder. It may have been removed under our feet. */
export function currentFolder(): string {
  try {
    return process.cwd()
  } catch (cause) {
    throw new Fault('invalid_request', {
      error: 'the current folder does not exist any more; go to another one',
      cause,
    })
  }
}

/** The same for whoever can do without one. */
export function currentFolderIfAny(): string | undefined {
  try {
    return process.cwd()
  } catch {
    return undefined // removed: whoever needs it asks the other way
  }
}

/** Refuses what the runner would refuse for every tool, and what no box can have. */
export function refuseWide(folder: string, stateDir: string): void {
  const system = ['/proc', '/sys', '/dev'].find((inside) => isIn(folder, inside))
  if (system !== undefined)
    throw new Fault('invalid_request', {
      error: `a run cannot work in ${folder}: ${system} belongs to the system, and each box has its own`,
    })
  for (const [inside, what] of [
    [homeFolder(process.env), 'your home folder; go to the folder of a project'],
    [stateDir, "Breakfall's state folder; choose another with --state-dir"],
  ] as const) {
    if (inside === undefined || !isIn(inside, folder)) continue
    const is = inside === folder ? 'is' : 'holds'
    throw new Fault('invalid_request', {
      error: `a run cannot work in ${folder}, which ${is} ${what}`,
    })
  }
}

/** Asked as whom commands run: in a box root has no more rights than its files give it. */
export function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    const { mode, uid, gid } = statSync(folder)
    return process.getuid?.() !== 0 || (mode & (uid === 0 ? 0o200 : gid === 0 ? 0o020 : 0o002)) !== 0
  } catch {
    return false // whatever the reason: nothing can be changed there
  }
}

const isIn = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
