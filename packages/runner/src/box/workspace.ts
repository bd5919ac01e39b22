/** Checks which host folders may be workspaces. */
import { realpathSync, statSync } from 'node:fs'
import { sep } from 'node:path'
import { invalidRequest } from '@breakfall/wire/internal'

export type WorkspaceRules = {
  /** Real paths of `--allow-workspace`. */
  readonly allowed: readonly string[]
  readonly stateDir: string
  readonly home: string
  /** Of `--allow-mount`. */
  readonly mounts: readonly { readonly path: string; readonly mode: 'ro' | 'rw' }[]
}

/** Returns the real path, or throws a 400 that says why it can never be allowed. */
export function realWorkspace(path: string, rules: WorkspaceRules): string {
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
export function refuseUnallowedWorkspace(path: string, real: string, { allowed }: WorkspaceRules): void {
  if (!allowed.some((folder) => isInside(real, folder)))
    refuseWorkspace(path, 'a folder below one of --allow-workspace')
}

function refuseWorkspace(path: string, expected: string): never {
  throw invalidRequest([{ field: 'workspace', expected, got: path }])
}

/** True for the folder itself and everything below it. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path // a folder that does not exist needs no protection
  }
}
