/** Checks the folder that a run works in, before any model is asked. */
import { accessSync, constants, statSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { homeFolder, SYSTEM_FOLDERS } from '@breakfall/supervisor/platform'

/** Refuses folders that the runner would refuse for every tool. */
export function refuseUnsafeFolder(folder: string, stateDir: string): void {
  const system = SYSTEM_FOLDERS.find((inside) => isIn(folder, inside))
  if (system !== undefined)
    throw new Fault('invalid_request', {
      error: `Cannot run in ${folder}: ${system} belongs to the system, and each box has its own`,
    })
  for (const [inside, what] of [
    [homeFolder(process.env), 'your home folder; change to a project folder'],
    [stateDir, "Breakfall's state folder; choose another with --state-dir"],
  ] as const) {
    if (inside === undefined || !isIn(inside, folder)) continue
    const relation = inside === folder ? 'is' : 'contains'
    throw new Fault('invalid_request', {
      error: `Cannot run in ${folder}, which ${relation} ${what}`,
    })
  }
}

/** Whether commands can write there. In a box, root has no more rights than the file's mode gives. */
export function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK)
    const { mode, uid, gid } = statSync(folder)
    return process.getuid?.() !== 0 || (mode & (uid === 0 ? 0o200 : gid === 0 ? 0o020 : 0o002)) !== 0
  } catch {
    return false // whatever the reason, nothing can be changed there
  }
}

const isIn = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
