/** The state folder: creates it, and explains what is wrong with it. */
import { accessSync, constants, existsSync, mkdirSync, opendirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'
import { reasonFor } from './system-errors.ts'

/** Creates the folder, or with `create: false` checks that it could be created. Level by level: a recursive mkdir in /proc never returns. */
export function prepareStateDir(folder: string, { create = true } = {}): string {
  const path = resolve(folder)
  const missing: string[] = []
  let existing = path
  while (!existsSync(existing)) {
    missing.unshift(existing)
    existing = dirname(existing)
  }
  try {
    const stat = statSync(existing)
    if (!stat.isDirectory()) throw unusable(path, `${existing} is not a folder`)
    // Its owner could put links there, which lead what we write elsewhere, and choose the tokens.
    if (existing === path && ![0, process.getuid?.() ?? stat.uid].includes(stat.uid))
      throw unusable(path, 'it belongs to another user')
    if (create) for (const level of missing) mkdirSync(level, { mode: 0o700 })
    accessSync(create ? path : existing, constants.R_OK | constants.W_OK | constants.X_OK)
    return path
  } catch (error) {
    if (isFault(error)) throw error
    throw unusable(path, reasonFor(errorCode(error)), error)
  }
}

/** For commands that only read. A missing folder is fine: it holds no sessions. */
export function refuseUnreadable(stateDir: string): void {
  try {
    opendirSync(stateDir).closeSync()
  } catch (error) {
    const code = errorCode(error)
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw unusable(stateDir, 'permission denied', error)
  }
}

/**
 * A file of `--token-file` is created if it is missing, and so is the folder for it inside an existing one. A longer path of missing
 * folders, or a new folder directly below `/`, is most likely a typo.
 */
export function refuseWithoutFolder(tokenFile: string): void {
  const folder = dirname(resolve(tokenFile))
  const parent = dirname(folder)
  if (existsSync(folder) || (parent !== '/' && existsSync(parent))) return
  throw new Fault('invalid_request', {
    error: `Cannot create the token file ${tokenFile}: its folder does not exist. Nothing started. Create the folder, or choose another --token-file.`,
  })
}

/** Names the file that cannot be read or written. Errors that are not about a file are unchanged. */
export function stateFileFault(error: unknown): unknown {
  const code = errorCode(error)
  if (isFault(error) || code === undefined) return error
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new Fault('journal_full', {
      error: 'The disk of the state folder is full, so nothing can start; free some space, then try again',
      cause: error,
    })
  const path = error instanceof Error && 'path' in error && typeof error.path === 'string' ? error.path : undefined
  if (path === undefined) return error
  return new Fault('invalid_request', {
    error: `Cannot use ${path}: ${reasonFor(code)}; remove it, or choose another --state-dir`,
    cause: error,
  })
}

// ---- details ----

const unusable = (path: string, why: string, cause?: unknown): Fault =>
  new Fault('invalid_request', {
    error: `Cannot use the state folder ${path}: ${why}; choose another with --state-dir or [daemon] stateDir`,
    cause,
  })
