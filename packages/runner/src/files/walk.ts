/**
 * Ways into a workspace that cannot lead out of it. Each folder on the way is opened by its parent's descriptor, without
 * following links: whatever the box moves meanwhile, the descriptor stays on the folder that was checked.
 */
import { closeSync, constants, fchownSync, fstatSync, mkdirSync, openSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { invalidRequest } from '@breakfall/wire'
import { errorCode } from '../state/json.ts'

export type Owner = { readonly uid: number; readonly gid: number }

/** The parts of a path below the workspace; throws 400 at everything that could mean something else. */
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
    refuse('a path that a file system can hold')
  return parts
}

/** Where a name lives: an open folder. Always closed by `using`. */
export class OpenFolder {
  readonly fd: number

  constructor(fd: number) {
    this.fd = fd
  }

  at(name: string): string {
    return `/proc/self/fd/${this.fd}/${name}`
  }

  get itself(): string {
    return `/proc/self/fd/${this.fd}/.`
  }

  [Symbol.dispose](): void {
    closeSync(this.fd)
  }
}

/** Opens the folder that `parts` lead to, and closes `root` where it was open. With `make`, missing ones are made and given to that owner. */
export function openFolder(root: string | OpenFolder, parts: readonly string[], make?: Owner | 'ours'): OpenFolder {
  let at = typeof root === 'string' ? new OpenFolder(openSync(root, FOLDER)) : root
  for (const part of parts) {
    using above = at
    at = stepInto(above, part, make)
  }
  return at
}

/** The deepest folder on the way that is there, and what is missing below it. Closes `root` where that is another one. */
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

/** Faults for what the kernel says on the way. */
export function pathFault(error: unknown, path: string): Fault {
  const code = errorCode(error)
  const errorRaw = rawOf(error, path)
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return new Fault('file_not_found', { facts: { name: path.slice(0, 200) }, cause: error, errorRaw })
  if (code === 'ELOOP' || code === 'EMLINK')
    return new Fault('invalid_request', {
      cause: error,
      errorRaw,
      error: `${path.slice(0, 200)} is, or leads over, a symbolic link; links are not followed here`,
      errors: [{ field: 'path', expected: 'a path without symbolic links', got: JSON.stringify(path.slice(0, 200)) }],
    })
  if (code === 'EISDIR')
    return new Fault('invalid_request', {
      cause: error,
      errorRaw,
      error: `${path.slice(0, 200)} is a folder; list it with ?glob=`,
      errors: [{ field: 'path', expected: 'a file', got: 'a folder' }],
    })
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return new Fault('forbidden', {
      boundary: 'box',
      cause: error,
      errorRaw,
      error: `${path.slice(0, 200)} may not be used so (${code === 'EROFS' ? 'the file system is read-only' : 'permission denied'}); nothing was changed`,
    })
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new Fault('journal_full', {
      boundary: 'box',
      cause: error,
      errorRaw,
      error: 'there is no room left for the file; nothing was written',
    })
  return error instanceof Fault ? error : new Fault('other', { boundary: 'box', cause: error, errorRaw })
}

// ---- details ----

const O_PATH = 0o10_000_000 // not in node:fs; the same number on every Linux architecture that Node has
const FOLDER = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

function stepInto(above: OpenFolder, part: string, make: Owner | 'ours' | undefined): OpenFolder {
  try {
    return new OpenFolder(openSync(above.at(part), FOLDER))
  } catch (error) {
    if (errorCode(error) === 'ENOTDIR' && isLink(above, part)) throw linkError(error)
    if (errorCode(error) !== 'ENOENT' || make === undefined) throw error
  }
  try {
    mkdirSync(above.at(part), { mode: 0o755 })
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error // somebody else was as quick
  }
  const made = new OpenFolder(openSync(above.at(part), FOLDER))
  if (make !== 'ours') giveTo(made, make)
  return made
}

/** O_DIRECTORY wins over O_NOFOLLOW in what the kernel reports: a second look tells a link from a file. */
function isLink(above: OpenFolder, part: string): boolean {
  try {
    const fd = openSync(above.at(part), O_PATH | constants.O_NOFOLLOW)
    try {
      return fstatSync(fd).isSymbolicLink()
    } finally {
      closeSync(fd)
    }
  } catch {
    return false // gone meanwhile
  }
}

const linkError = (cause: unknown): Error =>
  Object.assign(new Error('a symbolic link on the way', { cause }), { code: 'ELOOP' })

function giveTo(folder: OpenFolder, owner: Owner): void {
  const fd = openSync(folder.itself, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    fchownSync(fd, owner.uid, owner.gid)
  } finally {
    closeSync(fd)
  }
}

/** As the system said it, but with the caller's own path: which descriptor stood for its folder tells nobody anything. */
function rawOf(error: unknown, path: string): string | undefined {
  if (!(error instanceof Error)) return undefined
  return error.message.replaceAll(/'\/proc\/self\/fd\/\d+\/[^']*'/g, () => `'${path.slice(0, 200)}'`)
}
