/** Checks which folders of the host a box may use: one as its workspace, others mounted besides. */
import { readdirSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from '@breakfall/faults'
import { SYSTEM_FOLDERS } from '@breakfall/supervisor/platform'
import type { BoxCreate } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { isInside } from '../lib/paths.ts'

export type FolderRules = {
  /** Real paths of `--allow-workspace`. */
  readonly allowed: readonly string[]
  readonly stateDir: string
  readonly home: string
  /** Of `--allow-mount`. */
  readonly mounts: readonly { readonly path: string; readonly mode: 'ro' | 'rw' }[]
}

/** Returns the real path, or throws a 400 that says why it can never be allowed. */
export function realWorkspace(path: string, rules: FolderRules): string {
  const refuse = (expected: string): never => refuseWorkspace(path, expected)
  if (!path.startsWith('/')) refuse('an absolute path')
  let real: string
  try {
    real = realpathSync(path)
  } catch {
    return refuse('a folder that exists')
  }
  if (!statSync(real).isDirectory()) refuse('a folder')
  const home = realOf(rules.home)
  const state = realOf(rules.stateDir)
  if (isInside(home, real)) refuse('a folder other than your home folder or a parent of it')
  if (isInside(state, real) || isInside(real, state)) refuse("a folder outside the runner's state folder")
  return real
}

/** `real`: as `realWorkspace` returns it. */
export function refuseUnallowedWorkspace(path: string, real: string, { allowed }: FolderRules): void {
  if (!allowed.some((folder) => isInside(real, folder)))
    refuseWorkspace(path, 'a folder below one of --allow-workspace')
}

export type BoxMount = { readonly path: string; readonly mode: 'ro' | 'rw' }

/** `DIR`, `DIR:ro` or `DIR:rw`. Pure. */
export function parseMount(text: string): BoxMount {
  const [, path = text, mode] = /^(.*):(ro|rw)$/s.exec(text) ?? []
  return { path, mode: mode === 'rw' ? 'rw' : 'ro' }
}

/** Real paths, or a 400 that says why they can never be allowed. */
export function realMounts(
  mounts: NonNullable<BoxCreate['mounts']>,
  rules: FolderRules,
  workspace: string | undefined,
): readonly BoxMount[] {
  return mounts.map(({ path, mode = 'ro' }, index) => {
    const refuse = (expected: string): never => refuseMount(index, path, expected)
    let real: string
    try {
      real = realpathSync(path)
    } catch {
      return refuse('a folder that exists')
    }
    if (!statSync(real).isDirectory()) refuse('a folder')
    if (SYSTEM.has(real) || LIVE.some((folder) => isInside(real, folder)))
      refuse('a folder that is not part of the system')
    if (isInside(rules.home, real)) refuse('a folder other than your home folder or a parent of it')
    if (isInside(rules.stateDir, real) || isInside(real, rules.stateDir))
      refuse("a folder outside Breakfall's state folder")
    if (workspace !== undefined && isInside(real, workspace))
      refuse('a folder outside the workspace, which the box has anyway')
    if (hasSocket(real)) refuse('a folder without sockets, which lead to services of the machine')
    return { path: real, mode }
  })
}

/** `mounts`: as `realMounts` returns them. */
export function refuseUnallowedMounts(mounts: readonly BoxMount[], rules: FolderRules): void {
  for (const [index, { path, mode }] of mounts.entries()) {
    const isAllowed = rules.mounts.some(
      (allowed) => isInside(path, allowed.path) && (mode === 'ro' || allowed.mode === 'rw'),
    )
    if (!isAllowed) refuseMount(index, path, `a folder below one of --allow-mount${mode === 'rw' ? ' DIR:rw' : ''}`)
  }
}

function refuseMount(index: number, path: string, expected: string): never {
  throw refusedMount(index, path, expected)
}

export const refusedMount = (index: number, path: string, expected: string): Fault =>
  invalidRequest([{ field: `mounts.${index}.path`, expected, got: path }])

// ---- details ----

function refuseWorkspace(path: string, expected: string): never {
  throw invalidRequest([{ field: 'workspace', expected, got: path }])
}

function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path // a folder that does not exist needs no protection
  }
}

const SYSTEM: ReadonlySet<string> = new Set([
  '/',
  '/etc',
  '/usr',
  '/opt',
  '/bin',
  '/sbin',
  '/lib',
  '/lib64',
  '/tmp',
  '/var',
  '/var/tmp',
  '/boot',
])
const LIVE = [...SYSTEM_FOLDERS, '/run', '/var/run']

const LOOKED_AT_MAX = 100_000 // entries; a socket in a larger tree is not found

/** Anywhere below the folder. A socket that appears later is not noticed. */
function hasSocket(folder: string): boolean {
  const waiting = [folder]
  let looked = 0
  try {
    for (let next = waiting.pop(); next !== undefined && looked < LOOKED_AT_MAX; next = waiting.pop()) {
      for (const entry of readdirSync(next, { withFileTypes: true })) {
        looked += 1
        if (entry.isSocket()) return true
        if (entry.isDirectory()) waiting.push(join(next, entry.name))
      }
    }
    return false
  } catch {
    return true // what cannot be read is not shown
  }
}
