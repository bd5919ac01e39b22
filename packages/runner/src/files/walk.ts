/**
 * Paths into a workspace that cannot lead out of it. Each folder on the way is opened relative to its parent's descriptor,
 * without following links: even if the box renames folders meanwhile, a descriptor stays on the folder that was checked.
 */
import { closeSync, constants, fchownSync, fstatSync, mkdirSync, openSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'
import { invalidRequest } from '@breakfall/wire/internal'
import { DESCRIPTORS } from '@breakfall/supervisor/platform'

export type Owner = { readonly uid: number; readonly gid: number }

/** The parts of a path below the workspace. Throws a 400 for any path that could lead elsewhere. */
export function pathParts(path: string, workspace: string): readonly string[] {
  const relative = path === workspace ? '' : path.startsWith(`${workspace}/`) ? path.slice(workspace.length + 1) : path
  const refuse = (expected: string): never => {
    throw invalidRequest([{ field: 'path', expected, got: JSON.stringify(path.slice(0, 200)) }])
  }
  if (relative.includes('\0')) refuse('a path without NUL bytes')
  if (relative.startsWith('/')) refuse(`a path inside the workspace ${workspace}`)
  const parts = relative.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) refuse('a path without ".."')
  if (parts.some((part) => Buffer.byteLength(part) > 255) || parts.length > 100)
    refuse('a path with at most 100 parts of at most 255 bytes')
  return parts
}

/** An open folder, to be closed by `using`. */
export class OpenFolder {
  readonly fd: number

  constructor(fd: number) {
    this.fd = fd
  }

  at(name: string): string
  /** Names need not be valid UTF-8. */
  at(name: string | Buffer): string | Buffer
  at(name: string | Buffer): string | Buffer {
    const itself = `${DESCRIPTORS}/${this.fd}/`
    return typeof name === 'string' ? itself + name : Buffer.concat([Buffer.from(itself), name])
  }

  get itself(): string {
    return `${DESCRIPTORS}/${this.fd}/.`
  }

  [Symbol.dispose](): void {
    closeSync(this.fd)
  }
}

/** Opens the folder that `parts` lead to, and closes an open `root`. With `make`, creates missing folders for that owner. */
export function openFolder(
  root: string | OpenFolder,
  parts: readonly (string | Buffer)[],
  make?: Owner | 'ours',
): OpenFolder {
  let at = typeof root === 'string' ? new OpenFolder(openSync(root, FOLDER)) : root
  for (const part of parts) {
    using above = at
    at = stepInto(above, part, make)
  }
  return at
}

/** The deepest existing folder on the way, and the parts that are missing. Closes `root` if it is another folder. */
export function openDeepest(
  root: OpenFolder,
  parts: readonly string[],
): { readonly folder: OpenFolder; readonly missing: readonly string[] } {
  let at = root
  for (const [i, part] of parts.entries()) {
    let next: OpenFolder
    try {
      next = stepInto(at, part, undefined)
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { folder: at, missing: parts.slice(i) }
      at[Symbol.dispose]()
      throw error
    }
    at[Symbol.dispose]()
    at = next
  }
  return { folder: at, missing: [] }
}

/** Device and inode as `stat -c %d:%i` prints them. */
export function numbersOf(fd: number): string {
  const { dev, ino } = fstatSync(fd, { bigint: true })
  return `${dev}:${ino}`
}

export type FileAction = 'read' | 'write' | 'delete' | 'list'

/** The fault for a system error on the way. */
export function pathFault(error: unknown, path: string, action: FileAction): Fault {
  const code = errorCode(error)
  const errorRaw = rawOf(error, path)
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return new Fault('file_not_found', { facts: { name: path.slice(0, 200) }, cause: error, errorRaw })
  if (code === 'ELOOP' || code === 'EMLINK')
    return new Fault('invalid_request', {
      cause: error,
      errorRaw,
      error: `${path.slice(0, 200)} is a symbolic link or contains one. Links are not followed.`,
      errors: [{ field: 'path', expected: 'a path without symbolic links', got: JSON.stringify(path.slice(0, 200)) }],
    })
  if (code === 'EISDIR')
    return new Fault('invalid_request', {
      cause: error,
      errorRaw,
      error: `${path.slice(0, 200)} is a folder. List it with ?glob=.`,
      errors: [{ field: 'path', expected: 'a file', got: 'a folder' }],
    })
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new Fault('forbidden', {
      boundary: 'box',
      cause: error,
      errorRaw,
      error: `Cannot ${action} ${path.slice(0, 200)}: ${code === 'EROFS' ? 'the file system is read-only' : 'permission denied'}. Nothing was changed.`,
    })
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new Fault('journal_full', {
      boundary: 'box',
      cause: error,
      errorRaw,
      error: 'The disk is full. Nothing was written.',
    })
  return error instanceof Fault ? error : new Fault('other', { boundary: 'box', cause: error, errorRaw })
}

// ---- details ----

const O_PATH = 0o10_000_000 // not in node:fs; the same value on every Linux architecture that Node supports
const FOLDER = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

function stepInto(above: OpenFolder, part: string | Buffer, make: Owner | 'ours' | undefined): OpenFolder {
  try {
    return new OpenFolder(openSync(above.at(part), FOLDER))
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR' && isLink(above, part)) throw linkError(error)
    if (errorCode(error) !== 'ENOENT' || make === undefined) throw error
  }
  try {
    mkdirSync(above.at(part), { mode: 0o755 })
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error // another process was faster
  }
  const made = new OpenFolder(openSync(above.at(part), FOLDER))
  if (make !== 'ours') changeOwner(made, make)
  return made
}

/** The kernel reports ENOTDIR for both links and files here, so a second check distinguishes them. */
function isLink(above: OpenFolder, part: string | Buffer): boolean {
  try {
    const fd = openSync(above.at(part), O_PATH | constants.O_NOFOLLOW)
    try {
      return fstatSync(fd).isSymbolicLink()
    } finally {
      closeSync(fd)
    }
  } catch {
    return false // removed meanwhile
  }
}

const linkError = (cause: unknown): Error =>
  Object.assign(new Error('the path contains a symbolic link', { cause }), { code: 'ELOOP' })

function changeOwner(folder: OpenFolder, owner: Owner): void {
  const fd = openSync(folder.itself, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    fchownSync(fd, owner.uid, owner.gid)
  } finally {
    closeSync(fd)
  }
}

const OWN_PATH = new RegExp(`'${DESCRIPTORS}/\\d+/[^']*'`, 'g')

/** The system's message with the caller's path in place of our descriptor's. */
function rawOf(error: unknown, path: string): string | undefined {
  if (!(error instanceof Error)) return undefined
  return error.message.replaceAll(OWN_PATH, () => `'${path.slice(0, 200)}'`)
}
