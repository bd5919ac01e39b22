/**
 * The home folder of a box and its toolchains: where HOME is, what is mounted over it, the PATH, and variables that say where
 * toolchains are.
 *
 * With `real`, HOME is the path of the runner user's own home folder, because tools look there. Behind it is the box's private
 * folder; over it are read-only windows onto toolchains. With `private`, HOME is /home/box, and of the user's home folder only
 * the PATH entries themselves are visible.
 */
import { existsSync, realpathSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { IsolationLevel } from '@breakfall/wire'
import { SYSTEM_FOLDERS } from '@breakfall/supervisor/platform'
import { LOCATION_DEFAULTS, LOCATION_VARIABLES } from '../home/tool-table.ts'
import { credentialsIn, windowsFor } from '../home/toolchains.ts'
import type { RunnerHost } from '../host/host.ts'
import { BOX_HOME, type Mount } from '../isolation/mount-layout.ts'
import { isInside } from '../lib/paths.ts'

export type HomePlan = {
  /** HOME as the command sees it. */
  readonly at: string
  readonly windows: readonly string[]
  readonly mounts: readonly Mount[]
  readonly path: readonly string[]
  readonly locations: Readonly<Record<string, string>>
  readonly left: readonly { readonly path: string; readonly because: string }[]
}

type Wanted = {
  readonly level: IsolationLevel
  readonly isReal: boolean
  /** On the host. */
  readonly workspace: string
  /** The box's own folder on the host. */
  readonly folder: string
}

export function planHome(host: RunnerHost, { level, isReal, workspace, folder }: Wanted): HomePlan {
  if (level === 'process') return unmounted(host, folder)
  return isReal ? real(host, workspace) : hidden(host)
}

/** A home folder that can be mounted: not the root, not a folder of the system or of the box's own. */
export function canMountHome({ rules: { home }, layout }: Pick<RunnerHost, 'rules' | 'layout'>): boolean {
  if (['/', '/tmp', ...layout.folders].includes(home)) return false
  if ([...SYSTEM_FOLDERS, '/run', '/etc', '/var/tmp'].some((folder) => isInside(home, folder))) return false
  return existsSync(home) || !layout.folders.some((folder) => isInside(home, folder))
}

// ---- details, in the order they are used above ----

function real(host: RunnerHost, workspace: string): HomePlan {
  const { rules, nothing, toolchains } = host
  if (!isInside(workspace, rules.stateDir)) toolchains.distrust([workspace])
  const found = toolchains.current
  const windows = windowsFor(found, rules.home, workspace).filter(
    (path) => !toolchains.isWritable(path) || isReal(path), // a command may have made it a link since it was found
  )
  const isSeen = (path: string): boolean =>
    [...host.layout.folders, ...windows, workspace].some((folder) => isInside(path, folder))
  const mounts: readonly Mount[] = [
    ...windows.map((path) => ({ at: path, host: path, mode: 'ro' as const, isOptional: true })),
    ...credentialsIn(windows).map(({ path, isFolder }) => ({
      at: path,
      host: isFolder ? nothing.folder : nothing.file,
      mode: 'ro' as const,
    })),
  ]
  const isLeft = (path: string, because: string | undefined): because is string =>
    because !== undefined && !isInside(path, workspace)
  return {
    at: rules.home,
    windows,
    mounts,
    path: found.entries.filter(({ path, because }) => !isLeft(path, because)).map(({ path }) => path),
    locations: locationsIn(host, isSeen),
    left: found.entries.flatMap(({ path, because }) => (isLeft(path, because) ? [{ path, because }] : [])),
  }
}

function isReal(path: string): boolean {
  try {
    return realpathSync(path) === path
  } catch {
    return false // gone
  }
}

function hidden({ layout, environment }: RunnerHost): HomePlan {
  const entries = (environment['PATH'] ?? '').split(delimiter).filter((entry) => entry.startsWith('/'))
  const isSeen = (entry: string): boolean =>
    layout.homePath.includes(entry) || layout.folders.some((folder) => entry.startsWith(`${folder}/`))
  return {
    at: BOX_HOME,
    windows: layout.homePath,
    mounts: layout.homePath.map((path) => ({ at: path, host: path, mode: 'ro' })),
    path: entries.filter(isSeen),
    locations: {},
    left: entries.filter((entry) => !isSeen(entry)).map((path) => ({ path, because: 'the home folder is private' })),
  }
}

/** Without a sandbox. HOME stays a private folder: tools must not use the user's credentials. */
function unmounted({ environment, rules }: RunnerHost, folder: string): HomePlan {
  const locations: Record<string, string> = {}
  for (const [variable, below] of LOCATION_DEFAULTS) {
    const root = environment[variable] ?? join(rules.home, below)
    if (existsSync(root)) locations[variable] = root
  }
  return {
    at: folder,
    windows: [],
    mounts: [],
    path: (environment['PATH'] ?? '').split(delimiter).filter((entry) => entry.startsWith('/')),
    locations,
    left: [],
  }
}

/** Tools find their usual place below HOME by themselves. */
function locationsIn(
  { environment, rules }: RunnerHost,
  isSeen: (path: string) => boolean,
): Readonly<Record<string, string>> {
  const locations: Record<string, string> = {}
  const usual = new Map(LOCATION_DEFAULTS)
  for (const variable of LOCATION_VARIABLES) {
    const path = environment[variable]
    if (
      path !== undefined &&
      path.startsWith('/') &&
      path !== join(rules.home, usual.get(variable) ?? '') &&
      isSeen(path)
    )
      locations[variable] = path
  }
  return locations
}
