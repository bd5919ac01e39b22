/** What a restore does to which path, from the difference of two snapshots. Pure. */
import { FOLDER_PERM, type Manifest, shown, type TreeChange, type TreePath, usualPerm, withinAny } from './listing.ts'

export type Write = { readonly path: TreePath; readonly oid: string; readonly mode: string; readonly perm: number }

export type RestorePlan = {
  /** Files and links to write; `isNew` if nothing is there now. */
  readonly writes: readonly (Write & { readonly isNew: boolean })[]
  /** Files and links to remove. */
  readonly removals: readonly TreePath[]
  /** Files of which only the permissions differ. */
  readonly modes: readonly { readonly path: TreePath; readonly perm: number }[]
  /** Folders that get these permissions, outermost first; with `isMade`, they are made if they are missing. */
  readonly folders: readonly { readonly path: TreePath; readonly perm: number; readonly isMade: boolean }[]
  /** Folders to remove if they are empty; innermost first. */
  readonly emptied: readonly TreePath[]
  /** Files that were there, but are not held: they stay as they are. */
  readonly leftOut: readonly TreePath[]
}

export type FileChange = {
  readonly path: string
  readonly change: 'added' | 'changed' | 'removed'
  readonly bytes: number
}

/** From the state `now` to the state `then`. `changes` are those from `now` to `then`. */
export function planRestore(
  changes: readonly TreeChange[],
  now: Manifest,
  then: Manifest,
  isWanted: (path: TreePath) => boolean,
): RestorePlan {
  const wanted = changes.filter(({ path }) => isWanted(path))
  const writes = wanted.flatMap(({ path, from, to }) =>
    to === null ? [] : [{ path, ...to, perm: then.files.get(path) ?? usualPerm(to.mode), isNew: from === null }],
  )
  const gone = wanted.filter(({ to }) => to === null).map(({ path }) => path)
  const wasLeftOut = withinAny(then.leftOut)
  const removals = gone.filter((path) => !wasLeftOut(path))
  const touched = new Set(changes.map(({ path }) => path))
  const modes = [...new Set([...now.files.keys(), ...then.files.keys()])].flatMap((path) => {
    if (touched.has(path) || !isWanted(path)) return []
    const [before, after] = [permIn(now, path), permIn(then, path)]
    const perm = after ?? usualPerm(((before ?? 0) & 0o100) === 0 ? '100644' : '100755')
    return before === after ? [] : [{ path, perm }]
  })
  const folders = [...new Set([...now.folders.keys(), ...then.folders.keys()])].flatMap((path) => {
    const [before, after] = [now.folders.get(path), then.folders.get(path)]
    const isSame = before?.perm === after?.perm && (after === undefined || before?.isEmpty === after.isEmpty)
    if (isSame || !isWanted(path) || wasLeftOut(path)) return []
    // A folder that had nothing special is made by what is in it; only its permissions may have to go back.
    return after !== undefined || before?.isEmpty === false
      ? [{ path, perm: after?.perm ?? FOLDER_PERM, isMade: after !== undefined }]
      : []
  })
  return {
    writes,
    removals,
    modes,
    folders: folders.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    emptied: emptiedBy(removals, now, then, (path) => isWanted(path) && !wasLeftOut(path)),
    leftOut: gone.filter(wasLeftOut),
  }
}

/** The files of a plan, as a preview: what the restore adds, changes and removes. */
export function previewOf(plan: RestorePlan, bytesOf: (oid: string) => number): readonly FileChange[] {
  const files: FileChange[] = [
    ...plan.writes.map(({ path, oid, isNew }) => ({
      path: shown(path),
      change: isNew ? ('added' as const) : ('changed' as const),
      bytes: bytesOf(oid),
    })),
    ...plan.removals.map((path) => ({ path: shown(path), change: 'removed' as const, bytes: 0 })),
    ...plan.modes.map(({ path }) => ({ path: shown(path), change: 'changed' as const, bytes: 0 })),
  ]
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
}

export function isEmptyPlan({ writes, removals, modes, folders, emptied }: RestorePlan): boolean {
  return [writes, removals, modes, folders, emptied].every(({ length }) => length === 0)
}

/** A path of the caller's selection, or anything below one of its folders. No selection: everything. */
export function selection(paths: readonly string[] | undefined): (path: TreePath) => boolean {
  if (paths === undefined) return () => true
  const wanted = paths.map(plain)
  return (path) => {
    const name = shown(path)
    return wanted.some((one) => isWhole(one) || name === one || name.startsWith(`${one}/`))
  }
}

/** Those of the caller's paths that no state knows. `held`: files, and folders with files. */
export function unknownPaths(
  paths: readonly string[],
  held: ReadonlySet<string>,
  states: readonly Manifest[],
): readonly string[] {
  const isLeftOut = withinAny(states.flatMap(({ leftOut }) => leftOut))
  const others = states.flatMap(({ folders, leftOut }) => [...folders.keys(), ...leftOut].map(shown))
  return paths.filter((path) => {
    const one = plain(path)
    if (isWhole(one) || held.has(one) || isLeftOut(Buffer.from(one).toString('latin1'))) return false
    return !others.some((other) => other === one || other.startsWith(`${one}/`))
  })
}

/** The caller's paths as git knows them, without those that cannot be in a workspace. */
export const namesIn = (paths: readonly string[]): string[] =>
  paths.map(plain).filter((one) => !isWhole(one) && !one.startsWith('/') && !one.split('/').includes('..'))

// ---- details ----

const plain = (path: string): string => path.replace(/^(\.\/)+/, '').replace(/(?<!\/)\/+$/, '')
const isWhole = (path: string): boolean => path === '' || path === '.'

const permIn = ({ files }: Manifest, path: TreePath): number | undefined => files.get(path)

/** Parents of removed files, and empty folders that were not there: gone if nothing is left in them. */
function emptiedBy(
  removals: readonly TreePath[],
  now: Manifest,
  then: Manifest,
  isWanted: (path: TreePath) => boolean,
): readonly TreePath[] {
  const empty = [...now.folders].filter(([path, { isEmpty }]) => isEmpty && !then.folders.has(path) && isWanted(path))
  const candidates = new Set([...removals.flatMap(parentsOf), ...empty.flatMap(([path]) => [path, ...parentsOf(path)])])
  const kept = new Set([...then.folders.keys()].flatMap((path) => [path, ...parentsOf(path)]))
  return [...candidates].filter((path) => !kept.has(path)).toSorted((a, b) => depthOf(b) - depthOf(a))
}

/** Innermost first. */
export function parentsOf(path: TreePath): readonly TreePath[] {
  const parents: TreePath[] = []
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) parents.push(path.slice(0, at))
  return parents
}

const depthOf = (path: TreePath): number => path.split('/').length
