/**
 * Files of a host workspace that a box must not change: what git on the host reads its settings and hooks from, and an existing
 * `breakfall.toml`. They are mounted read-only over themselves.
 *
 * I1  They are opened by descriptor, from a verified workspace. What bubblewrap then finds by path is compared with them
 *     inside the sandbox before the command starts (`numbers`).
 * I2  A missing file cannot be mounted over, so missing hooks and config of a `.git` folder are created empty, as git does.
 *     Nothing is created outside `.git`, where git would see it: a `breakfall.toml` that is missing or a link is not guarded.
 *     A file that a box creates is as harmless as one in a cloned repository: it can set no address, key or command.
 * I3  What may not even exist, because git would read it, is not mounted: planted-git-files.ts sets it aside when it appears.
 * I4  A git folder is mounted onto itself, so it cannot be renamed and replaced. Other folders with a guard in them can be,
 *     because commands move files between them: what then is in the guard's place is set aside (I3).
 */
import { closeSync, constants, lchownSync, mkdirSync, openSync } from 'node:fs'
import { posix } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import { readRegular } from '../files/regular-file.ts'
import { type OpenFolder, openFolder, type Owner } from '../files/walk.ts'
import type { Mount } from '../isolation/mount-layout.ts'
import { pathInWorkspace, type Setting, settingsIn } from './git-files.ts'
import { foldersIn, isBare, kindAt, type NestedIn, numbersAt, type Way, wayTo } from './planted-git-files.ts'

export type Guard = {
  readonly mounts: readonly Mount[]
  /** `stat -c %d:%i` of the workspace and of each mount, by the path below the workspace. */
  readonly numbers: readonly { readonly name: string; readonly numbers: string }[]
  /** Git folders and `.git` files that are there now, with their device and inode. */
  readonly repositories: ReadonlyMap<string, string>
  /** Paths outside of git folders that git reads, or would read if they were there (I3), and how they are reached. */
  readonly elsewhere: ReadonlyMap<string, Way>
}

/** Closes `workspace`. */
export function guardWorkspace(workspace: OpenFolder, path: string, owner: Owner | undefined, nested: NestedIn): Guard {
  using folder = workspace
  const guards = new Guards(folder, path, owner, nested)
  guards.repository([], 0)
  if (kindAt(folder.at(CONFIG)) === 'file') guards.add([CONFIG], 'ro')
  return guards
}

/** The same for the files API, with the parts of a path below the workspace. Nested repositories count too. */
export function isGuarded(parts: readonly string[]): boolean {
  const git = parts.indexOf('.git')
  if (parts.length === 1 && parts[0] === CONFIG) return true
  if (git === -1) return false
  const [first, ...rest] = parts.slice(git + 1)
  if (first === undefined || GUARDED_IN_GIT.has(first)) return true
  return GIT_FOLDERS_IN_GIT.has(first) && rest.some((name) => GUARDED_IN_GIT.has(name) || name === 'gitdir')
}

// ---- details, in the order they are used above ----

const CONFIG = 'breakfall.toml'
const GUARDED_IN_GIT: ReadonlySet<string> = new Set(['hooks', 'config', 'config.worktree', 'commondir'])
const GIT_FOLDERS_IN_GIT: ReadonlySet<string> = new Set(['modules', 'worktrees'])
const MOUNTS_MAX = 200 // bubblewrap makes each more slowly than the one before
const DEPTH_MAX = 4

class Guards {
  readonly #workspace: OpenFolder
  readonly #path: string
  readonly #owner: Owner | undefined
  readonly #nested: NestedIn
  readonly mounts: Mount[] = []
  readonly numbers: { readonly name: string; readonly numbers: string }[] = []
  readonly repositories = new Map<string, string>()
  readonly elsewhere = new Map<string, Way>()
  /** What was not mounted is checked like what a command made (I3): it could make any number to get to this. */
  #isFull = false

  constructor(workspace: OpenFolder, path: string, owner: Owner | undefined, nested: NestedIn) {
    this.#workspace = workspace
    this.#path = path
    this.#owner = owner
    this.#nested = nested
    this.numbers.push({ name: '.', numbers: numbersAt(workspace.itself) })
  }

  /** Once each. Parents have to come first, or they would cover it. */
  add(parts: readonly string[], mode: 'ro' | 'rw'): void {
    const name = parts.join('/')
    const at = posix.join(this.#path, name)
    if (this.mounts.some((mount) => mount.at === at)) return
    this.#isFull ||= this.mounts.length >= MOUNTS_MAX
    if (this.#isFull) return
    using parent = this.#open(parts.slice(0, -1))
    if (parent === undefined) return
    const numbers = numbersAt(parent.at(parts.at(-1) ?? ''))
    this.mounts.push({ at, host: at, mode })
    this.numbers.push({ name, numbers })
  }

  /** The repository whose working tree is the folder `at`, and those that its index lists. */
  repository(at: readonly string[], depth: number): void {
    using folder = this.#open(at)
    if (folder === undefined || depth > DEPTH_MAX) return
    const name = [...at, '.git']
    if (at.length === 0 && isBare(folder)) this.#gitFolder([], at, depth)
    if (kindAt(folder.at('.git')) === 'missing') return
    this.repositories.set(name.join('/'), numbersAt(folder.at('.git')))
    const end = kindAt(folder.at('.git')) === 'link' ? this.#wayTo(name).end : name
    using parent = end && this.#open(end.slice(0, -1))
    if (end === undefined || parent === undefined) return // a link that leads out of the workspace
    const itself = parent.at(end.at(-1) ?? '')
    if (kindAt(itself) === 'folder') this.#gitFolder(end, at, depth)
    if (kindAt(itself) !== 'file') return
    this.add(end, 'ro')
    if (this.#isFull) this.repositories.delete(name.join('/'))
    const target = pathInWorkspace(readRegular(itself)?.toString('utf8') ?? '', this.#path, at)
    if (target !== undefined) this.#gitFolder(target, at, depth)
  }

  /** A git folder and its own files; `tree` is where its files are. */
  #gitFolder(name: readonly string[], tree: readonly string[], depth: number): void {
    using git = this.#open(name)
    if (git === undefined) return
    const outermost = name.includes('.git') ? name.lastIndexOf('.git') + 1 : name.length
    for (let i = outermost; i > 0 && i <= name.length; i += 1) this.add(name.slice(0, i), 'rw') // I4: a mount cannot be renamed
    this.repositories.set(name.join('/'), numbersAt(git.itself))
    if (name.at(-2) === 'worktrees') return this.#worktree(git, name)
    this.#create(() => mkdirSync(git.at('hooks'), 0o755), git.at('hooks'))
    this.#create(() => makeEmpty(git.at('config')), git.at('config'))
    const settings = settingsIn(readRegular(git.at('config'))?.toString('utf8') ?? '')
    if (settings.some(isPerWorktree))
      this.#create(() => makeEmpty(git.at('config.worktree')), git.at('config.worktree'))
    for (const each of GUARDED_IN_GIT) {
      const kind = kindAt(git.at(each))
      if (kind === 'file' || kind === 'folder') this.#addKnown([...name, each], git.at(each))
      if (kind !== 'link') continue
      this.repositories.set([...name, each].join('/'), numbersAt(git.at(each)))
      this.#addElsewhere([...name, each])
    }
    this.#settings(settings, name, tree)
    if (this.#isFull) this.repositories.delete(name.join('/'))
    const worktrees = foldersIn(git, 'worktrees')
    if (worktrees.length > 0) this.add([...name, 'worktrees'], 'rw')
    for (const each of worktrees) {
      if (this.#isFull) break
      using folder = this.#open([...name, 'worktrees', each])
      if (folder !== undefined) this.#worktree(folder, [...name, 'worktrees', each])
    }
    for (const each of this.#nested(name.join('/'), git) ?? []) {
      if (this.#isFull) break
      this.repository([...tree, ...each.split('/')], depth + 1)
    }
  }

  /** What git keeps for a linked working tree; it may be outside, and git on the host reads this all the same. */
  #worktree(folder: OpenFolder, name: readonly string[]): void {
    this.add(name, 'rw')
    this.repositories.set(name.join('/'), numbersAt(folder.itself))
    for (const each of ['commondir', 'gitdir', 'config.worktree'])
      if (kindAt(folder.at(each)) === 'file') this.#addKnown([...name, each], folder.at(each))
  }

  /** What these settings, which are in the folder `from`, make git read elsewhere. */
  #settings(settings: readonly Setting[], from: readonly string[], tree: readonly string[]): void {
    for (const { parts, isInclude } of filesOf(settings, this.#path, from, tree)) {
      if (this.elsewhere.has(parts.join('/'))) continue
      const end = this.#addElsewhere(parts)
      using folder = isInclude && end !== undefined ? this.#open(end.slice(0, -1)) : undefined
      const text = folder === undefined ? undefined : readRegular(folder.at(end?.at(-1) ?? ''))?.toString('utf8')
      if (text !== undefined) this.#settings(settingsIn(text), end?.slice(0, -1) ?? [], tree)
    }
  }

  /** Hooks and settings that git takes from the workspace by a setting or a link. Returns where they are. */
  #addElsewhere(parts: readonly string[]): readonly string[] | undefined {
    const way = this.#wayTo(parts)
    if (way.isThere && way.end !== undefined) this.add(way.end, 'ro')
    return way.end
  }

  #wayTo(parts: readonly string[]): Way {
    const way = wayTo(this.#workspace, this.#path, parts)
    this.elsewhere.set(parts.join('/'), way)
    return way
  }

  #addKnown(parts: readonly string[], at: string): void {
    this.add(parts, 'ro')
    if (!this.#isFull) this.repositories.set(parts.join('/'), numbersAt(at))
  }

  #create(work: () => void, path: string): void {
    try {
      work()
    } catch (error) {
      // It exists, or the folder is not writable, which holds for the box too.
      if (['EEXIST', 'EACCES', 'EPERM', 'EROFS'].includes(errorCode(error) ?? '')) return
      throw error
    }
    if (this.#owner !== undefined) lchownSync(path, this.#owner.uid, this.#owner.gid)
  }

  #open(parts: readonly string[]): OpenFolder | undefined {
    try {
      return openFolder(this.#workspace.itself, parts)
    } catch {
      return undefined // gone, or a link
    }
  }
}

const isPerWorktree = ({ section, key, value }: Setting): boolean =>
  section === 'extensions' && key === 'worktreeconfig' && value !== 'false'

type FileNamed = { readonly parts: readonly string[]; readonly isInclude: boolean }

/** Paths below the workspace. */
function filesOf(
  settings: readonly Setting[],
  workspace: string,
  from: readonly string[],
  tree: readonly string[],
): readonly FileNamed[] {
  return settings.flatMap(({ section, key, value }) => {
    const isHooks = section === 'core' && key === 'hookspath'
    const isInclude = (section === 'include' || section.startsWith('includeif.')) && key === 'path'
    if ((!isHooks && !isInclude) || value.startsWith('~') || value === '') return []
    const parts = pathInWorkspace(value, workspace, isHooks ? tree : from)
    if (parts === undefined || parts.length === 0) return []
    return [{ parts: isHooks && parts.at(-1) === '_' ? parts.slice(0, -1) : parts, isInclude }] // husky's run the files beside them
  })
}

function makeEmpty(path: string): void {
  closeSync(openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644))
}
