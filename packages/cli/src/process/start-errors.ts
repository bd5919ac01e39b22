/** What can be wrong before a service starts, each with its own sentence. */
import { accessSync, constants, existsSync, mkdirSync, opendirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import type { Config } from '../config/schema.ts'

/** Makes the state folder (or, without `make`, only looks whether it could), or says why it cannot be. Level by level: a recursive mkdir in /proc never comes back. */
export function prepareStateDir(folder: string, { make = true } = {}): string {
  const path = resolve(folder)
  const missing: string[] = []
  let existing = path
  while (!existsSync(existing)) {
    missing.unshift(existing)
    existing = dirname(existing)
  }
  try {
    if (!statSync(existing).isDirectory()) throw unusable(path, `${existing} is not a folder`)
    if (make) for (const level of missing) mkdirSync(level, { mode: 0o700 })
    accessSync(make ? path : existing, constants.R_OK | constants.W_OK | constants.X_OK)
    return path
  } catch (error) {
    if (isFault(error)) throw error
    throw unusable(path, words((error as NodeJS.ErrnoException).code), error)
  }
}

/** Whoever only looks needs no more than that; where there is no folder there is nothing to look at. */
export function refuseUnreadable(stateDir: string): void {
  try {
    opendirSync(stateDir).closeSync()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw unusable(stateDir, 'this user may not read there', error)
  }
}

/** A file of the state folder that cannot be read or written is named; without room, it is said that it passes. */
export function stateFileFault(error: unknown): unknown {
  const { code, path } = (error ?? {}) as Partial<NodeJS.ErrnoException>
  if (isFault(error) || code === undefined) return error
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new Fault('journal_full', {
      error: 'the disk of the state folder is full, so nothing can be started; free some space, then try again',
      cause: error,
    })
  return path === undefined
    ? error
    : refusal(`${path} cannot be used: ${words(code)}; remove it, or choose another --state-dir`, error)
}

/** A remote runner's token that is not there is a slip, which only the first tool would find. */
export function tokenWarnings({ runner, remote_runner }: Config): readonly string[] {
  const isRemote =
    (runner?.url ?? runner?.resolveUrl ?? runner?.resolveCommand ?? remote_runner?.endpoint) !== undefined
  const file = runner?.tokenFile
  return !isRemote || file === undefined || existsSync(file)
    ? []
    : [`[runner] tokenFile names ${file}, but there is no such file: the runner will refuse every tool`]
}

/** A service that could not take its port says so. */
export function listenFault(error: unknown, host: string, port: number): unknown {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  if (code === 'EADDRINUSE')
    return refusal(`port ${port} on ${host} is taken; choose another with --port, or 0 for a free one`, error)
  if (code === 'EACCES' && port < 1024)
    return refusal(
      `port ${port} needs more rights than this user has; choose one from 1024 up, or 0 for a free one`,
      error,
    )
  if (code === 'EADDRNOTAVAIL')
    return refusal(`${host} is not an address of this machine; leave --host out to bind loopback`, error)
  return error
}

// ---- details ----

const refusal = (error: string, cause: unknown): Fault => new Fault('invalid_request', { error, cause })

const unusable = (path: string, why: string, cause?: unknown): Fault =>
  new Fault('invalid_request', {
    error: `the state folder ${path} cannot be used: ${why}; choose another with --state-dir or [daemon] stateDir`,
    cause,
  })

function words(code: string | undefined): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return 'this user may not write there'
    case 'EROFS':
      return 'it is on a read-only file system'
    case 'EISDIR':
      return 'it is a folder'
    case 'ENOSPC':
      return 'the disk is full'
    case undefined:
      return 'it cannot be made'
    default:
      return `it cannot be made (${code})`
  }
}
