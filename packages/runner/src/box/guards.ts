/**
 * What in a host workspace stays as it is: git's hooks and settings, by which a box could make the machine outside run
 * something, and a config of ours that somebody wrote. Mounted read-only over themselves.
 *
 * I1  Looked at by descriptor, from a workspace that was checked; what bubblewrap then finds by path is compared with it
 *     inside the sandbox before the command starts (`numbers`).
 * I2  What is not there yet cannot be mounted over. Hooks and settings of a `.git` folder are made, empty, as git does.
 *     Nothing is made outside `.git`, where git would see it: a missing `breakfall.toml` is not guarded, nor one that is
 *     a link. One that a box makes is as harmless as one that comes with a clone: it sets no address, key or command.
 */
import { closeSync, constants, lchownSync, lstatSync, mkdirSync, openSync } from 'node:fs'
import { posix } from 'node:path'
import { type OpenFolder, openFolder, type Owner } from '../files/walk.ts'
import type { Mount } from '../isolation/view.ts'
import { errorCode } from '../state/json.ts'

export type Guard = {
  readonly mounts: readonly Mount[]
  /** `stat -c %d:%i` of the workspace and of each mount, by the path below the workspace. */
  readonly numbers: readonly { readonly name: string; readonly numbers: string }[]
}

/** Closes `workspace`. */
export function guardWorkspace(workspace: OpenFolder, path: string, owner: Owner | undefined): Guard {
  using folder = workspace
  const mounts: Mount[] = []
  const numbers = [{ name: '.', numbers: numbersAt(folder.itself) }]
  const add = (name: string, mode: 'ro' | 'rw', from = folder.at(name)): void => {
    const at = posix.join(path, name)
    mounts.push({ at, host: at, mode })
    numbers.push({ name, numbers: numbersAt(from) })
  }
  const git = kindAt(folder.at('.git'))
  if (git === 'file') add('.git', 'ro')
  if (git === 'folder') {
    add('.git', 'rw') // onto itself, so that it cannot be moved out of the way
    using inside = openFolder(folder.itself, ['.git'])
    make(() => mkdirSync(inside.at('hooks'), 0o755), inside.at('hooks'), owner)
    make(() => makeEmpty(inside.at('config')), inside.at('config'), owner)
    for (const name of GUARDED_IN_GIT)
      if (['file', 'folder'].includes(kindAt(inside.at(name)))) add(`.git/${name}`, 'ro', inside.at(name))
  }
  if (kindAt(folder.at(CONFIG)) === 'file') add(CONFIG, 'ro')
  return { mounts, numbers }
}

/** The same for the files API: `parts` of a path relative to the workspace. Repositories below it count too. */
export function isGuarded(parts: readonly string[]): boolean {
  const git = parts.indexOf('.git')
  if (parts.length === 1 && parts[0] === CONFIG) return true
  return git !== -1 && (git === parts.length - 1 || GUARDED_IN_GIT.some((name) => name === parts[git + 1]))
}

// ---- details, in the order they are used above ----

const CONFIG = 'breakfall.toml'
const GUARDED_IN_GIT = ['hooks', 'config'] as const

function numbersAt(path: string): string {
  const { dev, ino } = lstatSync(path, { bigint: true })
  return `${dev}:${ino}`
}

function kindAt(path: string): 'missing' | 'file' | 'folder' | 'link' | 'other' {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat === undefined) return 'missing'
  return stat.isFile() ? 'file' : stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'other'
}

function make(work: () => void, path: string, owner: Owner | undefined): void {
  try {
    work()
  } catch (error) {
    // There already; or a folder that nobody may write into, the box neither.
    if (['EEXIST', 'EACCES', 'EPERM', 'EROFS'].includes(errorCode(error) ?? '')) return
    throw error
  }
  if (owner !== undefined) lchownSync(path, owner.uid, owner.gid)
}

function makeEmpty(path: string): void {
  closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644))
}
