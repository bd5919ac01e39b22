/** Which joined runner gets a session's box. Pure: the dice come in as an argument. */
import type { SessionData } from '../rows.ts'
import type { LostBecause, RunnerRow } from '../store/sharing.ts'

/** What a session asks of its runner. */
export type Wanted = {
  readonly labels: readonly string[]
  readonly isolation?: string | undefined
  /** The host folder of its box. */
  readonly workspace?: string | undefined
  /** Runners that have just refused it for lack of room. */
  readonly without?: ReadonlySet<string> | undefined
  /** `never`: only a person who drops its runner moves the box. */
  readonly replace?: 'never' | 'auto' | undefined
  /** Also if it was declared lost: it is back, and cleaned up before it is used. */
  readonly isReturning?: boolean | undefined
}

export const ANYWHERE: Wanted = { labels: [] }

export const placementRequest = ({ placement, box }: Pick<SessionData, 'placement' | 'box'>): Wanted => ({
  labels: placement?.labels ?? [],
  replace: placement?.replace,
  isolation: box.isolation?.min,
  workspace: box.workspace,
})

const SILENT_MS_MAX = 30_000 // three missed registrations

/** Picks two suitable runners at random and returns the one with more room. Undefined if none fits. */
export function placed(rows: readonly RunnerRow[], wanted: Wanted, dice: () => number): RunnerRow | undefined {
  const fitting = rows.filter((row) => fits(row, wanted))
  const first = fitting[Math.floor(dice() * fitting.length)]
  const others = fitting.filter((row) => row !== first)
  const second = others[Math.floor(dice() * others.length)]
  if (first === undefined || second === undefined) return first
  return load(second) < load(first) ? second : first
}

export const hasRoom = ({ boxes, capacity }: RunnerRow): boolean => boxes < capacity

/** Why the box of a session at this runner moves now. Undefined: it does not. */
export function lossOf({ state, lostBecause }: RunnerRow, { replace }: Wanted): LostBecause | undefined {
  if (state !== 'lost') return undefined
  const because = lostBecause ?? 'dropped'
  return because === 'silent' && replace === 'never' ? undefined : because
}

/** Whether a host folder has the same files on both runners. */
export function isSharedFolder(folder: string | undefined, from: RunnerRow | undefined, to: RunnerRow): boolean {
  if (folder === undefined) return false
  const isShared = ({ workspaces }: RunnerRow): boolean =>
    workspaces.some((root) => root.startsWith(SHARED) && isUnder(folder, root.slice(SHARED.length)))
  return isShared(to) || (from !== undefined && from.machine !== '' && from.machine === to.machine)
}

// ---- details, in the order they are used above ----

const SHARED = 'shared:'

function fits(row: RunnerRow, { labels, isolation, workspace, without }: Wanted): boolean {
  const { state, silentMs, workspaces, runnerId } = row
  if (state !== 'live' || silentMs > SILENT_MS_MAX || without?.has(runnerId) === true) return false
  if (row.isolation === 'none' || (isolation === 'bwrap' && row.isolation !== 'bwrap')) return false
  if (!labels.every((label) => row.labels.includes(label))) return false
  return workspace === undefined || workspaces.some((root) => isUnder(workspace, root.replace(/^shared:/, '')))
}

const load = ({ boxes, capacity }: RunnerRow): number => boxes / capacity

const isUnder = (folder: string, root: string): boolean =>
  folder === root || folder.startsWith(root.endsWith('/') ? root : `${root}/`)
