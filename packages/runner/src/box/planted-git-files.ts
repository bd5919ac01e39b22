/**
 * Finds what a command has put into a workspace that git on the host would act on by itself, and sets it aside: a `commondir`,
 * by which git reads its configuration elsewhere, and commands in the settings or hooks of repositories that were not there
 * before. `git status` in a repository runs those of each nested repository that its index lists.
 *
 * I1  Nothing is deleted and nothing is followed: what is set aside gets another name in the same folder.
 * I2  A repository that was there before the commands is its owner's. It is guarded by mounts, and only checked for what it
 *     did not have.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  fchownSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { type OpenFolder, openFolder, type Owner } from '../files/walk.ts'
import { readRegular } from '../files/regular-file.ts'
import { harmlessPart, nestedIn, pathInWorkspace, settingsIn } from './git-files.ts'

export type PlantedCheck = {
  /** Of the workspace. */
  readonly path: string
  /** Whether it was there before the commands: its path below the workspace, with device and inode. */
  readonly isKnown: (name: string, numbers: string) => boolean
  /** What git reads outside of git folders, and how it was reached before the commands. */
  readonly elsewhere: ReadonlyMap<string, Way>
  readonly owner: Owner | undefined
  readonly nested: NestedIn
}

/** The paths that the index of a git folder lists as nested repositories. `name` is its path below the workspace. Undefined if
 * there are more than any project has, or if the index is too large to tell. */
export type NestedIn = (name: string, git: OpenFolder) => readonly string[] | undefined

/** Returns the names of what was set aside. */
export function setPlantedAside(workspace: OpenFolder, plan: PlantedCheck): readonly string[] {
  const check = new Check(workspace, plan)
  check.elsewhere()
  check.repository([], 0)
  return check.found
}

/** What kind of thing a name is. */
export function kindAt(path: string): 'missing' | 'file' | 'folder' | 'link' | 'other' {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat === undefined) return 'missing'
  return stat.isFile() ? 'file' : stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'other'
}

/** How a path is reached, link by link as git follows them. */
export type Way = {
  /** The folders and links on the way, each with what identifies it. */
  readonly steps: readonly { readonly name: string; readonly mark: string; readonly isLink: boolean }[]
  /** Where it leads; undefined if that is outside the workspace. */
  readonly end: readonly string[] | undefined
  readonly isThere: boolean
}

export function wayTo(workspace: OpenFolder, path: string, parts: readonly string[]): Way {
  const steps: Way['steps'][number][] = []
  const lost = { steps, end: undefined, isThere: false }
  let rest = [...parts]
  let at: readonly string[] = []
  for (;;) {
    const next = rest.shift()
    if (next === undefined || steps.length > STEPS_MAX || (next === '..' && at.length === 0)) return lost
    if (next === '' || next === '.') continue
    if (next === '..') {
      at = at.slice(0, -1)
      continue
    }
    using folder = openOrNot(workspace, at)
    const kind = folder === undefined ? 'missing' : kindAt(folder.at(next))
    const end = [...at, next]
    const name = end.join('/')
    if (folder !== undefined && kind === 'link') {
      const target = readlinkSync(folder.at(next))
      steps.push({ name, mark: numbersAt(folder.at(next)), isLink: true })
      const inside = target.startsWith('/') ? pathInWorkspace(target, path, []) : undefined
      if (target.startsWith('/') && inside === undefined) return lost
      if (inside !== undefined) at = []
      rest = [...(inside ?? target.split('/')), ...rest]
    } else if (rest.length === 0 || kind === 'missing') {
      return { steps, end, isThere: kind !== 'missing' }
    } else if (folder !== undefined) {
      steps.push({ name, mark: numbersAt(folder.at(next)), isLink: false })
      at = end
    }
  }
}

/** Of a link also its target: a new link can get the number of a removed one. */
export function numbersAt(path: string): string {
  const stat = lstatSync(path, { bigint: true })
  return `${stat.dev}:${stat.ino}${stat.isSymbolicLink() ? ` ${readlinkSync(path)}` : ''}`
}

/** The nested repositories of indexes, read again only when an index has changed. */
export class GitIndexes {
  readonly #seen = new Map<string, SeenIndex>()

  /** `name` is that of the git folder, below the workspace. */
  nested(name: string, git: OpenFolder): readonly string[] | undefined {
    const stat = lstatSync(git.at('index'), { throwIfNoEntry: false, bigint: true })
    if (stat?.isFile() !== true) return []
    const stamp = `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`
    const seen = this.#seen.get(name)
    if (seen?.stamp === stamp) return seen.nested
    this.#seen.delete(name)
    if (this.#seen.size >= NESTED_MAX) this.#seen.clear()
    const files = indexFiles(git)
    const others = [...this.#seen.values()].reduce((sum, each) => sum + each.bytes, 0)
    const isTooMuch = files.length > SHARED_MAX || others + bytesIn(git, files) > INDEX_BYTES_MAX
    const nested = isTooMuch ? undefined : read(git, files)
    this.#seen.set(name, { stamp, bytes: isTooMuch ? 0 : bytesIn(git, files), nested })
    return nested
  }
}

type SeenIndex = {
  readonly stamp: string
  /** That were read. */
  readonly bytes: number
  readonly nested: readonly string[] | undefined
}

// ---- details, in the order they are used above ----

const INDEX_BYTES_MAX = 256 * 1024 * 1024 // of all indexes of a workspace: other boxes wait while they are read
const SHARED_MAX = 1_000
const LISTED_MAX = 5_000 // in all indexes of a workspace
const NESTED_MAX = 1_000
const DEPTH_MAX = 8
const SUFFIX = '.set-aside'
const STEPS_MAX = 100 // links may lead in a circle

/** Its index, and those that it may share. */
const indexFiles = (git: OpenFolder): readonly string[] =>
  readdirSync(git.itself).filter((name) => name === 'index' || name.startsWith('sharedindex.'))

const bytesIn = (git: OpenFolder, names: readonly string[]): number =>
  names.reduce((sum, name) => sum + (lstatSync(git.at(name), { throwIfNoEntry: false })?.size ?? 0), 0)

function read(git: OpenFolder, names: readonly string[]): readonly string[] | undefined {
  const index = readRegular(git.at('index'), INDEX_BYTES_MAX)
  if (index === undefined) return []
  const config = settingsIn(readRegular(git.at('config'))?.toString('utf8') ?? '')
  const isLong = config.some(
    ({ section, key, value }) => section === 'extensions' && key === 'objectformat' && value === 'sha256',
  )
  return nestedIn(index, isLong ? 32 : 20, (name) =>
    names.includes(name) ? readRegular(git.at(name), INDEX_BYTES_MAX) : undefined,
  )
}

class Check {
  readonly #workspace: OpenFolder
  readonly #plan: PlantedCheck
  readonly #done = new Set<string>()
  #listed = 0
  readonly found: string[] = []

  constructor(workspace: OpenFolder, plan: PlantedCheck) {
    this.#workspace = workspace
    this.#plan = plan
  }

  /** A link that was not on the way is never followed: it can lead back in by any path. */
  elsewhere(): void {
    for (const [name, before] of this.#plan.elsewhere) {
      const now = wayTo(this.#workspace, this.#plan.path, name.split('/'))
      const isSame = (i: number): boolean => now.steps[i]?.mark === before.steps[i]?.mark
      const link = now.steps.find(({ isLink }, i) => isLink && !isSame(i))
      const isMoved = now.steps.length !== before.steps.length || now.steps.some((_, i) => !isSame(i))
      if (link === undefined && !(now.isThere && (isMoved || !before.isThere))) continue
      const parts = link?.name.split('/') ?? now.end ?? []
      using folder = this.#open(parts.slice(0, -1))
      if (folder !== undefined) this.#setAside(folder, parts.slice(0, -1), parts.at(-1) ?? '')
    }
  }

  /** The repository whose working tree is the folder `at`, and those that its index lists. */
  repository(at: readonly string[], depth: number): void {
    using folder = this.#open(at)
    if (folder === undefined) return
    const name = [...at, '.git']
    const kind = kindAt(folder.at('.git'))
    const isTooMany = depth > DEPTH_MAX || this.#done.size > NESTED_MAX
    if (isTooMany && kind !== 'missing' && !this.#isKnown(name, folder.at('.git'))) this.#setAside(folder, at, '.git')
    if (isTooMany) return
    if (kind === 'folder') this.#gitFolder(name, depth, at)
    else if (kind === 'file') this.#gitFile(folder, at, depth)
    else if (kind === 'link') this.#gitLink(folder, at, depth)
    // Also beside a `.git`: if that is damaged, git takes the folder itself.
    if (at.length === 0 && isBare(folder)) this.#gitFolder([], depth, undefined)
  }

  #gitFile(folder: OpenFolder, at: readonly string[], depth: number): void {
    const text = readRegular(folder.at('.git'))?.toString('utf8') ?? ''
    const target = pathInWorkspace(text, this.#plan.path, at)
    using opened = target && this.#open(target)
    if (target !== undefined && opened !== undefined) this.#gitFolder(target, depth, at)
    else if (!this.#isKnown([...at, '.git'], folder.at('.git'))) this.#setAside(folder, at, '.git') // to a folder elsewhere, or by way of a link
  }

  #gitLink(folder: OpenFolder, at: readonly string[], depth: number): void {
    const name = [...at, '.git']
    if (!this.#isKnown(name, folder.at('.git'))) return this.#setAside(folder, at, '.git')
    const { end } = wayTo(this.#workspace, this.#plan.path, name)
    if (end !== undefined) this.#gitFolder(end, depth, at)
  }

  /** `tree`: its working tree; undefined for a bare one. */
  #gitFolder(name: readonly string[], depth: number, tree: readonly string[] | undefined): void {
    if (this.#done.has(name.join('/'))) return
    this.#done.add(name.join('/'))
    using git = this.#open(name)
    if (git === undefined) return
    const isWorktree = name.at(-2) === 'worktrees'
    if (kindAt(git.at('commondir')) !== 'missing' && !this.#isKnown([...name, 'commondir'], git.at('commondir')))
      if (!isWorktree || !/^\.\.\/\.\.[\r\n]*$/.test(readRegular(git.at('commondir'))?.toString('latin1') ?? ''))
        this.#setAside(git, name, 'commondir')
    if (!this.#isKnown(name, git.itself)) this.#strip(git, name, tree)
    if (!this.#isKnown([...name, 'config.worktree'], git.at('config.worktree')))
      this.#stripConfig(git, name, 'config.worktree', tree)
    const worktrees = foldersIn(git, 'worktrees')
    if (worktrees.length > NESTED_MAX) this.#setAside(git, name, 'worktrees')
    else for (const each of worktrees) this.#gitFolder([...name, 'worktrees', each], depth, undefined)
    if (tree === undefined) return
    const listed = this.#plan.nested(name.join('/'), git)
    this.#listed += listed?.length ?? 0
    if (listed === undefined || this.#listed > LISTED_MAX) return this.#setAside(git, name, 'index')
    for (const nested of listed) {
      const parts = nested.split('/')
      if (parts.some((part) => part === '' || part === '.' || part === '..' || part === '.git')) continue // git refuses these
      this.repository([...tree, ...parts], depth + 1)
    }
  }

  #strip(git: OpenFolder, name: readonly string[], tree: readonly string[] | undefined): void {
    this.#stripConfig(git, name, 'config', tree)
    const hooks = kindAt(git.at('hooks'))
    const isSet =
      hooks === 'folder' ? readdirSync(git.at('hooks')).some((hook) => !hook.endsWith('.sample')) : hooks !== 'missing'
    if (isSet) this.#setAside(git, name, 'hooks')
  }

  /** What is harmless stays. */
  #stripConfig(git: OpenFolder, name: readonly string[], file: string, tree: readonly string[] | undefined): void {
    if (kindAt(git.at(file)) === 'missing') return
    const text = readRegular(git.at(file))?.toString('utf8')
    const isTree = (path: string): boolean =>
      tree !== undefined && pathInWorkspace(path, this.#plan.path, name)?.join('/') === tree.join('/')
    const { text: harmless, removed } =
      text === undefined ? { text: '', removed: ['all of it'] } : harmlessPart(text, isTree)
    if (removed.length === 0) return
    const made = git.at(`${file}${SUFFIX}-${randomUUID()}`)
    const fd = openSync(made, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o644)
    try {
      writeFileSync(fd, harmless)
      if (this.#plan.owner !== undefined) fchownSync(fd, this.#plan.owner.uid, this.#plan.owner.gid)
    } finally {
      closeSync(fd)
    }
    this.#setAside(git, name, file)
    renameSync(made, git.at(file))
  }

  /** I1. Nothing is removed: a command could put a link where a folder was. */
  #setAside(folder: OpenFolder, at: readonly string[], name: string): void {
    const usual = `${name}${SUFFIX}`
    const aside = kindAt(folder.at(usual)) === 'missing' ? usual : `${usual}-${randomUUID()}`
    renameSync(folder.at(name), folder.at(aside))
    this.found.push([...at, name].join('/'))
  }

  #isKnown(name: readonly string[], at: string): boolean {
    try {
      return this.#plan.isKnown(name.join('/'), numbersAt(at))
    } catch {
      return true // it is gone
    }
  }

  /** Undefined if it is no folder, or a link is on the way. */
  #open(parts: readonly string[]): OpenFolder | undefined {
    return openOrNot(this.#workspace, parts)
  }
}

function openOrNot(workspace: OpenFolder, parts: readonly string[]): OpenFolder | undefined {
  try {
    return openFolder(workspace.itself, parts)
  } catch {
    return undefined
  }
}

/** Git follows links to its folders, and takes them from where `commondir` leads. */
export function isBare(folder: OpenFolder): boolean {
  const isThere = (name: string): boolean => kindAt(folder.at(name)) !== 'missing'
  return isThere('HEAD') && (isThere('commondir') || (isThere('objects') && isThere('refs')))
}

export function foldersIn(folder: OpenFolder, name: string): readonly string[] {
  if (kindAt(folder.at(name)) !== 'folder') return []
  return readdirSync(folder.at(name), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
}
