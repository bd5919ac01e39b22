/**
 * What in a host workspace stays as it is: files by which a box could make the machine outside run something (git's
 * hooks and settings, our own config), mounted read-only over themselves.
 *
 * I1  Looked at by descriptor, from a workspace that was checked; what bubblewrap then finds by path is compared with it
 *     inside the sandbox before the command starts (`numbers`).
 * I2  What is not there yet cannot be mounted over. Hooks and settings of a `.git` folder are made, empty, as git does.
 *     A missing `breakfall.toml` gets a placeholder while commands run, and a socket that nobody listens on is mounted
 *     over it: tools and `git add` pass over sockets. It is gone again before the end of the last command is told.
 */
import { closeSync, constants, lchownSync, lstatSync, mkdirSync, openSync, readFileSync, unlinkSync } from 'node:fs'
import { posix } from 'node:path'
import { Fault } from '@breakfall/faults'
import { type OpenFolder, openFolder, type Owner } from '../files/walk.ts'
import type { Mount } from '../isolation/view.ts'
import { writeFully } from '../state/disk.ts'

export type Guard = {
  readonly mounts: readonly Mount[]
  /** `stat -c %d:%i` of the workspace and of each mount, by the path below the workspace. */
  readonly numbers: readonly { readonly name: string; readonly numbers: string }[]
}

/** `nothing` is the socket of I2. Closes `workspace`. */
export function guardWorkspace(workspace: OpenFolder, path: string, nothing: string, owner: Owner | undefined): Guard {
  using folder = workspace
  const mounts: Mount[] = []
  const numbers = [{ name: '.', numbers: numbersAt(folder.itself) }]
  const add = (
    name: string,
    mode: 'ro' | 'rw',
    from = `${folder.itself}/${name}`,
    host = posix.join(path, name),
  ): void => {
    mounts.push({ at: posix.join(path, name), host, mode })
    numbers.push({ name, numbers: numbersAt(from) })
  }
  const git = kindAt(folder.at('.git'))
  if (git === 'file') add('.git', 'ro')
  if (git === 'folder') {
    add('.git', 'rw') // onto itself, so that it cannot be moved out of the way
    using inside = openFolder(folder.itself, ['.git'])
    make(() => mkdirSync(inside.at('hooks'), 0o755), inside.at('hooks'), owner)
    make(() => writeNew(inside.at('config'), ''), inside.at('config'), owner)
    for (const name of GUARDED_IN_GIT)
      if (['file', 'folder'].includes(kindAt(inside.at(name)))) add(`.git/${name}`, 'ro', inside.at(name))
  }
  make(() => writeNew(folder.at(CONFIG), PLACEHOLDER), folder.at(CONFIG), owner)
  const config = kindAt(folder.at(CONFIG))
  if (config === 'link' || config === 'other')
    throw new Fault('forbidden', {
      boundary: 'box',
      error: `${posix.join(path, CONFIG)} is not a regular file, so it cannot be kept from the box; put a file there, or nothing.`,
    })
  if (config === 'file') {
    if (isPlaceholder(folder)) add(CONFIG, 'ro', nothing, nothing)
    else add(CONFIG, 'ro')
  }
  return { mounts, numbers }
}

/** The same for the files API: `parts` of a path relative to the workspace. Repositories below it count too. */
export function isGuarded(parts: readonly string[]): boolean {
  const git = parts.indexOf('.git')
  if (parts.length === 1 && parts[0] === CONFIG) return true
  return git !== -1 && (git === parts.length - 1 || GUARDED_IN_GIT.includes(parts[git + 1] as 'hooks'))
}

/** Counts who runs in which workspace; the placeholder goes with the last one (I2). */
export class Placeholders {
  readonly #users = new Map<string, number>()

  enter(path: string): void {
    this.#users.set(path, (this.#users.get(path) ?? 0) + 1)
  }

  leave(path: string, open: () => OpenFolder): void {
    const left = (this.#users.get(path) ?? 1) - 1
    if (left > 0) {
      this.#users.set(path, left)
      return
    }
    this.#users.delete(path)
    try {
      using folder = open()
      if (isPlaceholder(folder)) unlinkSync(folder.at(CONFIG))
    } catch {
      // The workspace is gone, or another folder; then so is the placeholder, or the next command's end takes it.
    }
  }
}

// ---- details, in the order they are used above ----

const CONFIG = 'breakfall.toml'
const GUARDED_IN_GIT = ['hooks', 'config'] as const
const PLACEHOLDER = '# Kept free while a command runs in a box here; removed after it.\n'

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
    if (['EEXIST', 'EACCES', 'EPERM', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) return
    throw error
  }
  if (owner !== undefined) lchownSync(path, owner.uid, owner.gid)
}

function writeNew(path: string, text: string): void {
  const fd = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644)
  try {
    writeFully(fd, Buffer.from(text))
  } finally {
    closeSync(fd)
  }
}

function isPlaceholder(folder: OpenFolder): boolean {
  let fd: number
  try {
    fd = openSync(folder.at(CONFIG), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return false // not there, or nothing that we made
  }
  try {
    return readFileSync(fd, 'utf8') === PLACEHOLDER
  } catch {
    return false // a folder
  } finally {
    closeSync(fd)
  }
}
