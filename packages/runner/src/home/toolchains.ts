/**
 * Finds the toolchains that the user's PATH names, and which read-only windows into the home folder a box needs to run them.
 *
 * I1  Nothing is shown but programs and libraries that the PATH, or a link in one of its folders, leads to. No window is writable.
 * I2  A workspace is not trusted to name a path: its `pyvenv.cfg` and `.python-version` only choose among the table's roots.
 * I3  Credentials that tools keep in an installation are covered.
 * I4  What a box may write leads nowhere else: a link there is the word of a command, not of the user.
 */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { basename, delimiter, dirname, join, normalize, posix, relative, resolve } from 'node:path'
import {
  CREDENTIAL_NAMES,
  holdsCredentials,
  isOffLimitsForLinks,
  isTooWide,
  PREFIX_SIGNS,
  PROGRAM_FOLDERS,
  PYTHON_ROOTS,
  servesHost,
  tableParts,
} from './tool-table.ts'
import { isInside, statOf } from '../lib/paths.ts'

export type Toolchains = {
  /** Folders and files that are visible read-only at their own path. */
  readonly windows: readonly string[]
  /** PATH entries in order, by what they mean. */
  readonly entries: readonly PathEntry[]
}

/** `because` is set if the box cannot see it. */
export type PathEntry = { readonly path: string; readonly because?: string | undefined }

export type ToolchainInput = {
  readonly path: string
  readonly home: string
  /** Folders that every box sees. */
  readonly system: readonly string[]
  /** Folders that a box may write. */
  readonly writable?: readonly string[] | undefined
  /** Package stores outside HOME: their root, and what else they need. */
  readonly stores?: readonly Store[] | undefined
}

export type Store = { readonly root: string; readonly also: readonly string[] }

export const STORES: readonly Store[] = [
  { root: '/nix/store', also: ['/nix/var/nix/profiles'] }, // never the daemon's socket
  { root: '/home/linuxbrew/.linuxbrew', also: [] },
]

export function findToolchains(input: ToolchainInput): Toolchains {
  const windows = new Windows(input)
  const entries: PathEntry[] = []
  for (const entry of new Set(input.path.split(delimiter))) {
    const path = entry.startsWith('/') ? realFolder(entry) : undefined
    if (path === undefined) continue
    const because = leadsOut(entry, path, input.writable ?? []) ?? windows.addEntry(path)
    // A folder of the system keeps its name; anything else is named by what it means, such as fnm's link of one shell.
    entries.push(because === undefined ? { path: windows.isSystem(path) ? entry : path } : { path: entry, because })
  }
  return { windows: windows.all, entries }
}

/** The windows, with those that the workspace chooses. */
export function windowsFor({ windows }: Toolchains, home: string, workspace: string): readonly string[] {
  const chosen = new Windows({ home, system: [], stores: [] }, windows)
  for (const folder of ['.', '.venv', 'venv', 'env']) {
    const python = /^home\s*=\s*(\/.*?)\s*$/m.exec(smallText(join(workspace, folder, 'pyvenv.cfg')) ?? '')?.[1]
    if (python !== undefined) chosen.addKnown(posix.normalize(python)) // I2
  }
  if (existsSync(join(workspace, '.python-version'))) for (const root of PYTHON_ROOTS) chosen.add(join(home, root))
  return chosen.all
}

/** What must be covered in the windows. I3 */
export function credentialsIn(
  windows: readonly string[],
): readonly { readonly path: string; readonly isFolder: boolean }[] {
  return windows.flatMap((window) =>
    CREDENTIAL_NAMES.flatMap((name) => {
      const path = join(window, name)
      const stat = statOf(path)
      const isCovered = stat?.isDirectory() === true || (stat?.isFile() === true && (stat.mode & 0o111) === 0) // not a program
      return isCovered ? [{ path, isFolder: stat.isDirectory() }] : []
    }),
  )
}

/** Changes whenever a folder that the result depends on does. */
export function signatureOf({ path, writable = [] }: ToolchainInput, { windows }: Toolchains): string {
  const entries = path.split(delimiter).filter((entry) => entry.startsWith('/'))
  const listed = new Set([...entries, ...windows, ...windows.map((window) => dirname(window))])
  return [...writable, ...listed]
    .map((folder) => `${folder} ${realFolder(folder) ?? ''} ${statOf(folder)?.mtimeMs ?? ''}`)
    .join('\n')
}

export const isWritable = (path: string, writable: readonly string[]): boolean =>
  writable.some((folder) => isInside(path, folder))

// ---- details, in the order they are used above ----

/** I4. Why, if a folder on the way is one that a box may write, and the end is not. */
function leadsOut(entry: string, end: string, writable: readonly string[]): string | undefined {
  const parts = normalize(entry).split('/')
  const ways = parts.map((_, i) => realOf(parts.slice(0, i + 1).join('/') || '/') ?? '')
  const isOut = writable.some((folder) => !isInside(end, folder) && ways.some((way) => isInside(way, folder)))
  return isOut ? 'it leads out of a folder that a box may write' : undefined
}

const NAMES_MAX = 2_000 // of one PATH entry

class Windows {
  readonly #input: Omit<ToolchainInput, 'path'>
  readonly #windows: Set<string>

  constructor(input: Omit<ToolchainInput, 'path'>, first: readonly string[] = []) {
    this.#input = input
    this.#windows = new Set(first)
  }

  /** Parents first. */
  get all(): readonly string[] {
    return [...this.#windows].toSorted()
  }

  isSystem(path: string): boolean {
    return this.#input.system.some((folder) => isInside(path, folder))
  }

  /** Returns why the box cannot have it. */
  addEntry(path: string): string | undefined {
    if (this.isSystem(path)) return undefined
    if (servesHost(path)) return 'it belongs to a service of the host'
    if (this.#addStore(path)) return undefined
    const below = this.#below(path)
    if (below === undefined) return 'it is outside the system folders and the home folder'
    if (holdsCredentials(below)) return 'it is in a folder with credentials'
    if (isTooWide(below)) return 'it would show too much of the home folder'
    if (!this.addKnown(path)) this.add(this.#prefixOf(path) ?? path)
    if (!isWritable(path, this.#input.writable ?? [])) this.#followLinks(path) // I4: what a box may write leads nowhere else
    return undefined
  }

  /** True if the table knows it. */
  addKnown(path: string): boolean {
    const below = this.#below(path)
    const parts = below === undefined ? undefined : tableParts(below)
    for (const part of parts ?? []) this.add(join(this.#input.home, part))
    return parts !== undefined
  }

  add(path: string): void {
    if (!existsSync(path) || this.#has(path)) return
    for (const window of this.#windows) if (isInside(window, path)) this.#windows.delete(window)
    this.#windows.add(path)
  }

  #has(path: string): boolean {
    return [...this.#windows].some((window) => isInside(path, window))
  }

  #addStore(path: string): boolean {
    const store = (this.#input.stores ?? STORES).find(({ root }) => isInside(path, root))
    for (const part of store === undefined ? [] : [store.root, ...store.also]) this.add(part)
    return store !== undefined
  }

  /** Relative to HOME; undefined if it is elsewhere. */
  #below(path: string): string | undefined {
    const { home } = this.#input
    return isInside(path, home) ? relative(home, path) : undefined
  }

  /** An installation around a folder of programs: conda, an npm prefix, a virtual environment. */
  #prefixOf(path: string): string | undefined {
    const prefix = dirname(path)
    const below = this.#below(prefix)
    if (!PROGRAM_FOLDERS.has(basename(path)) || below === undefined || isTooWide(below)) return undefined
    return PREFIX_SIGNS.some((name) => existsSync(join(prefix, name))) ? prefix : undefined
  }

  #followLinks(folder: string): void {
    for (const name of namesIn(folder)) {
      const link = join(folder, name)
      if (statOf(link)?.isSymbolicLink() !== true) continue
      const target = realOf(link)
      if (target === undefined || this.isSystem(target) || this.#has(target) || this.#addStore(target)) continue
      const below = this.#below(target)
      if (below === undefined || this.addKnown(target) || isOffLimitsForLinks(below) || !isProgram(target)) continue
      this.add(target) // one file: nothing is known about its surroundings
      const named = resolve(folder, readlinkSync(link))
      if (named !== target && this.#below(named) !== undefined) this.add(named) // the link leads there by way of another
    }
  }
}

function realFolder(path: string): string | undefined {
  const real = realOf(path)
  return real !== undefined && statOf(real)?.isDirectory() === true ? real : undefined
}

function realOf(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined // PATH entries and links often lead nowhere
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).slice(0, NAMES_MAX)
  } catch {
    return [] // not readable
  }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    const stat = statSync(path)
    return stat.isFile() && (stat.mode & 0o111) !== 0
  } catch {
    return false // gone, or not ours to run
  }
}

const TEXT_BYTES_MAX = 8 * 1024

/** The start of a regular file; the workspace may have put a pipe or a link there. */
function smallText(path: string): string | undefined {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch {
    return undefined // there is none, or it is a link
  }
  try {
    if (!fstatSync(fd).isFile()) return undefined
    const bytes = Buffer.alloc(TEXT_BYTES_MAX)
    return bytes.toString('utf8', 0, readSync(fd, bytes))
  } finally {
    closeSync(fd)
  }
}
