/** Which host folder may be a workspace, and what in it stays read-only. */
import { existsSync, lstatSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, sep } from 'node:path'
import { invalidRequest } from '@breakfall/wire'

export type WorkspaceRules = {
  /** Real paths of `--allow-workspace`. */
  readonly allowed: readonly string[]
  readonly stateDir: string
  readonly home?: string | undefined
}

/** The real path, or a 400 that says why not. */
export function checkWorkspace(path: string, rules: WorkspaceRules): string {
  const refuse = (expected: string): never => {
    throw invalidRequest([{ field: 'workspace', expected, got: path }])
  }
  if (!path.startsWith('/')) refuse('an absolute path')
  let real: string
  try {
    real = realpathSync(path)
  } catch {
    return refuse('a folder that exists')
  }
  if (!statSync(real).isDirectory()) refuse('a folder')
  const home = realOf(rules.home ?? homedir())
  const state = realOf(rules.stateDir)
  if (isInside(home, real)) refuse('another folder than the home folder and those above it')
  if (isInside(state, real) || isInside(real, state)) refuse("a folder apart from the runner's state folder")
  if (!rules.allowed.some((folder) => isInside(real, folder)))
    refuse('a folder inside one that the runner allows (--allow-workspace)')
  return real
}

/** True for the folder itself and everything below it. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

/** Files by which a workspace could make the host run something: git's hooks and settings, and our own config. */
export function protectedPaths(workspace: string): {
  readonly readOnly: readonly string[]
  readonly pinned: readonly string[]
} {
  const git = join(workspace, '.git')
  const isFolder = lstatSync(git, { throwIfNoEntry: false })?.isDirectory() === true
  const inside = isFolder ? PROTECTED_IN_GIT.map((name) => join(git, name)) : []
  const readOnly = [...inside, join(workspace, 'breakfall.toml')].filter(
    (path) => existsSync(path) && lstatSync(path).isSymbolicLink() === false,
  )
  return { readOnly, pinned: isFolder ? [git] : [] }
}

/** The same for the files API: `parts` of a path relative to the workspace. */
export function isProtected(parts: readonly string[]): boolean {
  const [first, second] = parts
  if (parts.length === 1) return first === 'breakfall.toml' || first === '.git'
  return first === '.git' && PROTECTED_IN_GIT.includes(second as (typeof PROTECTED_IN_GIT)[number])
}

const PROTECTED_IN_GIT = ['hooks', 'config'] as const

function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path // a home that does not exist protects nothing and breaks nothing
  }
}
