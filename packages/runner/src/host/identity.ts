/** The runner's identity: one id per state folder, one per process. Also makes sure that it is alone in its folder. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { isObject, messageOf, parseObject } from '@breakfall/faults/internal'
import { type FileLock, lockFile } from '@breakfall/supervisor/platform'
import { ID_PATTERN } from '@breakfall/wire/internal'
import { makeFolder, readJsonFile, writeJsonDurably } from '../lib/disk.ts'
import { newId } from '@breakfall/wire/node'

export type Identity = { readonly runnerId: string; readonly bootId: string; readonly version: string }

/** The id of the runner of this folder, before it starts. */
export function runnerIdIn(stateDir: string): string {
  makeFolder(stateDir)
  return readIdentity(stateDir).runnerId
}

/** Created if missing. A damaged id is not replaced: that would orphan what still runs under the old one. */
export function readIdentity(stateDir: string): Identity {
  const file = join(stateDir, 'identity.json')
  const runnerId = knownId(file) ?? newId()
  if (!existsSync(file)) writeJsonDurably(file, { runnerId })
  return { runnerId, bootId: newId(), version: version() }
}

function knownId(file: string): string | undefined {
  let cause: unknown
  try {
    const known = readJsonFile(file)
    if (known === undefined) return undefined
    const { runnerId } = isObject(known) ? known : {}
    if (typeof runnerId === 'string' && ID_PATTERN.test(runnerId)) return runnerId
  } catch (error) {
    cause = error
  }
  throw new Fault('journal_corrupt', {
    boundary: 'runner',
    cause,
    error: `${file} is damaged, and it holds this runner's id. Restore it from a backup, or delete it to start as a new runner; execs of the old one are lost then.`,
  })
}

/** Lets daemons find a runner by its state folder. */
export type RunnerFile = {
  readonly url: string
  readonly runnerId: string
  readonly pid: number
  readonly startTime: number | undefined
  readonly bootId: string
  readonly version: string
}

export function announce(stateDir: string, file: RunnerFile): void {
  writeJsonDurably(join(stateDir, 'runner.json'), file)
}

export function withdraw(stateDir: string): void {
  rmSync(join(stateDir, 'runner.json'), { force: true, recursive: true })
}

/** Two runners in one folder would read each other's pipes. */
export function lockFolder(stateDir: string): FileLock {
  const file = join(stateDir, 'owner.db')
  let lock: FileLock | undefined
  try {
    lock = lockFile(file)
  } catch (cause) {
    const message = messageOf(cause)
    throw new Fault('invalid_request', {
      boundary: 'runner',
      cause,
      error: `cannot lock ${file}: ${message}. If it is damaged and no runner uses this folder, delete it; it holds nothing.`,
    })
  }
  if (lock !== undefined) return lock
  throw new Fault('invalid_request', {
    error: `another runner is using ${stateDir}. Use that one (its address is in runner.json), or choose another state folder.`,
  })
}

function version(): string {
  const file = new URL('../../package.json', import.meta.url)
  return String(parseObject(readFileSync(file, 'utf8'))['version'])
}
