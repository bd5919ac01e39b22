/**
 * Reads, writes and deletes files of a workspace.
 *
 * I1  A write is all or nothing: into a temporary file, synced, then renamed over the old one. Missing folders are created
 *     only right before the rename.
 * I2  Checking an ETag and acting on it is one step for API callers, who take turns per box. (Commands in the box do not: what
 *     they change between check and rename is overwritten.)
 * I3  Only regular files are opened, and opening never blocks, not even on a FIFO.
 */
import {
  type BigIntStats,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  openSync,
  renameSync,
  rmdirSync,
  unlinkSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { Fault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'
import type { Uploads } from './uploads.ts'
import { openDeepest, openFolder, type OpenFolder, type Owner, pathFault, pathParts } from './walk.ts'

export type WorkspaceAccess = {
  /** Opens the folder; throws if it is gone or replaced. The caller closes it. */
  readonly open: () => OpenFolder
  /** The workspace's path inside the box. */
  readonly boxPath: string
  /** What a box must not change, because programs on the host would act on it. To be asked right before a change. */
  readonly guarding: () => Guarding
  readonly owner: Owner | undefined
}

export type Guarding = {
  /** Whether this path is guarded, given by its parts below the workspace. */
  readonly refuses: (parts: readonly string[]) => boolean
  /** After a change: sets aside what programs on the host would act on now and did not before. */
  readonly settle: () => void
}

export type Precondition = { readonly ifMatch: string | undefined; readonly ifNoneMatch: string | undefined }

export type OpenedFile = {
  readonly fd: number
  readonly bytes: number
  readonly etag: string
  readonly modifiedAtMs: number
}

/** The caller closes it. */
export function openFile(at: WorkspaceAccess, path: string): OpenedFile {
  const { folder, name } = split(at, path)
  try {
    using parent = openFolder(at.open(), folder)
    const fd = openSync(parent.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK) // I3
    const stat = fstatSync(fd, { bigint: true })
    if (!stat.isFile()) {
      closeSync(fd)
      throw stat.isDirectory() ? Object.assign(new Error('a folder'), { code: 'EISDIR' }) : notRegular(path)
    }
    return { fd, bytes: Number(stat.size), etag: etagOf(stat), modifiedAtMs: Number(stat.mtimeMs) }
  } catch (error) {
    throw pathFault(error, path, 'read')
  }
}

export async function writeFile(
  at: WorkspaceAccess,
  path: string,
  chunks: AsyncIterable<Buffer>,
  condition: Precondition,
  uploads: Uploads,
  exclusive: <T>(work: () => T) => Promise<T>,
): Promise<{ readonly etag: string; readonly isNew: boolean }> {
  const { folder, name } = split(at, path)
  refuseGuarded(at, [...folder, name], path)
  try {
    checkCondition(at, path, condition) // before the body too, so a hopeless upload is refused early
    const { folder: near, missing } = openDeepest(at.open(), folder)
    using parent = near
    const upload = uploads.begin(folder.slice(0, folder.length - missing.length))
    const temporary = parent.at(upload.name)
    try {
      const file = await open(
        temporary,
        constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
        0o644,
      )
      try {
        for await (const chunk of chunks) await file.writeFile(chunk)
        await file.sync()
        return await exclusive(() => {
          const before = checkCondition(at, path, condition) // I2
          if (before?.isFile() === true) fchmodSync(file.fd, Number(before.mode & 0o777n))
          if (at.owner !== undefined) fchownSync(file.fd, at.owner.uid, at.owner.gid)
          refuseFolder(before, path)
          const { settle } = refuseGuarded(at, [...folder, name], path)
          using target = openFolder(parent.itself, missing, at.owner ?? 'ours')
          renameSync(temporary, target.at(name)) // I1
          settle()
          return { etag: etagOf(fstatSync(file.fd, { bigint: true })), isNew: before === undefined }
        })
      } finally {
        await file.close()
      }
    } catch (error) {
      removeQuietly(temporary)
      throw error
    } finally {
      upload.done()
    }
  } catch (error) {
    throw pathFault(error, path, 'write')
  }
}

export function deleteFile(at: WorkspaceAccess, path: string, condition: Precondition): void {
  const { folder, name } = split(at, path)
  const { settle } = refuseGuarded(at, [...folder, name], path)
  try {
    const stat = checkCondition(at, path, condition)
    if (stat === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    using parent = openFolder(at.open(), folder)
    if (stat.isDirectory()) rmdirSync(parent.at(name))
    else unlinkSync(parent.at(name)) // removes a link, not its target
    settle()
  } catch (error) {
    if (errorCode(error) === 'ENOTEMPTY')
      throw new Fault('invalid_request', {
        cause: error,
        error: `${path.slice(0, 200)} is a folder that is not empty. Empty it first.`,
        errors: [{ field: 'path', expected: 'a file or an empty folder', got: 'a folder that is not empty' }],
      })
    throw pathFault(error, path, 'delete')
  }
}

// ---- details, in the order they are used above ----

const O_PATH = 0o10_000_000

function split(at: WorkspaceAccess, path: string): { readonly folder: readonly string[]; readonly name: string } {
  const parts = pathParts(path, at.boxPath)
  const name = parts.at(-1)
  if (name === undefined)
    throw pathFault(Object.assign(new Error('the workspace itself'), { code: 'EISDIR' }), path, 'read')
  return { folder: parts.slice(0, -1), name }
}

/** Whether a list of ETags, or `*`, contains this one. We never send weak ETags. */
export function matchesEtag(list: string, etag: string): boolean {
  return list.split(',').some((tag) => tag.trim() === '*' || tag.trim() === etag)
}

/** Changes whenever the file does: our writes change the inode, all others the times. */
function etagOf(stat: BigIntStats): string {
  return `"${stat.ino.toString(36)}-${stat.size.toString(36)}-${stat.mtimeNs.toString(36)}-${stat.ctimeNs.toString(36)}"`
}

function notRegular(path: string): Fault {
  return new Fault('invalid_request', {
    error: `${path.slice(0, 200)} is not a regular file.`,
    errors: [{ field: 'path', expected: 'a regular file', got: 'something else' }],
  })
}

function refuseGuarded(at: WorkspaceAccess, parts: readonly string[], path: string): Guarding {
  const guarding = at.guarding()
  if (!guarding.refuses(parts)) return guarding
  throw new Fault('forbidden', {
    boundary: 'box',
    error: `${path.slice(0, 200)} is read-only in a box, because programs on the host would act on it.`,
    errorRaw: `guarded path ${path.slice(0, 200)}`,
  })
}

/** The current file or link; throws if the caller's condition does not hold. */
function checkCondition(at: WorkspaceAccess, path: string, condition: Precondition): BigIntStats | undefined {
  const stat = statAt(at, path)
  const failed = new Fault('precondition_failed', { facts: { name: path.slice(0, 200) } })
  if (condition.ifNoneMatch === '*' && stat !== undefined) throw failed
  if (condition.ifMatch === undefined) return stat
  if (stat === undefined || !matchesEtag(condition.ifMatch, etagOf(stat))) throw failed
  return stat
}

function statAt(at: WorkspaceAccess, path: string): BigIntStats | undefined {
  const { folder, name } = split(at, path)
  try {
    using parent = openFolder(at.open(), folder)
    const fd = openSync(parent.at(name), O_PATH | constants.O_NOFOLLOW)
    try {
      return fstatSync(fd, { bigint: true })
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

function refuseFolder(stat: BigIntStats | undefined, path: string): void {
  if (stat?.isDirectory() === true)
    throw pathFault(Object.assign(new Error('a folder'), { code: 'EISDIR' }), path, 'write')
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path)
  } catch {
    // It was never created, or is already renamed.
  }
}
