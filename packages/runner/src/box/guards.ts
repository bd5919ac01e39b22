/**
 * Files of a host workspace that a box must not change: git's hooks and config, which could make the host run something,
 * and an existing `breakfall.toml`. They are mounted read-only over themselves.
 *
 * I1  They are opened by descriptor, from a verified workspace. What bubblewrap then finds by path is compared with them
 *     inside the sandbox before the command starts (`numbers`).
 * I2  A missing file cannot be mounted over, so missing hooks and config of a `.git` folder are created empty, as git does.
 *     Nothing is created outside `.git`, where git would see it: a `breakfall.toml` that is missing or a link is not guarded.
 *     A file that a box creates is as harmless as one in a cloned repository: it can set no address, key or command.
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
    add('.git', 'rw') // mounted onto itself, so it cannot be renamed
    using inside = openFolder(folder.itself, ['.git'])
    create(() => mkdirSync(inside.at('hooks'), 0o755), inside.at('hooks'), owner)
    create(() => makeEmpty(inside.at('config')), inside.at('config'), owner)
    for (const name of GUARDED_IN_GIT)
      if (['file', 'folder'].includes(kindAt(inside.at(name)))) add(`.git/${name}`, 'ro', inside.at(name))
  }
  if (kindAt(folder.at(CONFIG)) === 'file') add(CONFIG, 'ro')
  return { mounts, numbers }
}

/** The same for the files API, with the parts of a path below the workspace. Nested repositories count too. */
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

function create(work: () => void, path: string, owner: Owner | undefined): void {
  try {
    work()
  } catch (error) {
    // It exists, or the folder is not writable, which holds for the box too.
    if (['EEXIST', 'EACCES', 'EPERM', 'EROFS'].includes(errorCode(error) ?? '')) return
    throw error
  }
  if (owner !== undefined) lchownSync(path, owner.uid, owner.gid)
}

function makeEmpty(path: string): void {
  closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644))
}
