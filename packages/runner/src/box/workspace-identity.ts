/**
 * Identifies a host workspace by the folder itself, not by its path: anyone who may rename folders on the way, another box
 * included, can make the path lead elsewhere.
 *
 * I1  The path is walked name by name without following links, and must end at the folder that the box was created on.
 */
import { fstatSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import { type OpenFolder, openFolder } from '../files/walk.ts'

export type FolderIdentity = {
  readonly dev: string
  readonly ino: string
  readonly bornNs: string
  /** Device numbers may change at a reboot; inode and birth time do not. */
  readonly machineBootId: string
}

/** From a stored record; undefined if it is no identity. */
export function readFolderIdentity(value: unknown): FolderIdentity | undefined {
  const { dev, ino, bornNs, machineBootId } = isObject(value) ? value : {}
  return typeof dev === 'string' &&
    typeof ino === 'string' &&
    typeof bornNs === 'string' &&
    typeof machineBootId === 'string'
    ? { dev, ino, bornNs, machineBootId }
    : undefined
}

/** Undefined if there is no folder, or a symbolic link on the way. */
export function identify(path: string, machineBootId: string): FolderIdentity | undefined {
  try {
    using folder = openFolder('/', path.split('/').filter(Boolean))
    return identityOf(folder.fd, machineBootId)
  } catch {
    return undefined // the caller decides what that means
  }
}

/** Opens the folder; throws if it is another one than `expected`. */
export function openSame(
  path: string,
  expected: FolderIdentity | undefined,
  machineBootId: string,
  what = 'workspace',
): OpenFolder {
  let folder: OpenFolder
  try {
    folder = openFolder('/', path.split('/').filter(Boolean)) // I1
  } catch (cause) {
    throw folderGone(`${what} ${path} is gone, or its path contains a symbolic link now`, cause)
  }
  if (expected !== undefined && isSame(expected, identityOf(folder.fd, machineBootId))) return folder
  folder[Symbol.dispose]()
  throw folderGone(`${what} ${path} is another folder now`)
}

// ---- details ----

function identityOf(fd: number, machineBootId: string): FolderIdentity {
  const { dev, ino, birthtimeNs } = fstatSync(fd, { bigint: true })
  return { dev: String(dev), ino: String(ino), bornNs: String(birthtimeNs), machineBootId }
}

function isSame(a: FolderIdentity, b: FolderIdentity): boolean {
  return a.ino === b.ino && a.bornNs === b.bornNs && (a.dev === b.dev || a.machineBootId !== b.machineBootId)
}

function folderGone(what: string, cause?: unknown): Fault {
  return new Fault('file_not_found', {
    cause,
    error: `the ${what}. Create a new box for the folder that is there now.`,
    errorRaw: what,
  })
}
