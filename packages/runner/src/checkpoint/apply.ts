/**
 * Carries out a restore in the workspace, by descriptor: renaming a folder or replacing it with a link meanwhile has no effect.
 *
 * I1  All new content is complete in a separate folder in the workspace before the first file changes. That detects a full disk
 *     or a damaged object in time.
 * I2  A path is touched only if it is unchanged since the safety checkpoint started, and of the same kind.
 * I3  At every moment a path holds its old or its new content, never half of it and never nothing.
 */
import { randomUUID } from 'node:crypto'
import {
  type BigIntStats,
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lchownSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { errorCode, messageOf } from '@breakfall/faults/internal'
import { DESCRIPTORS } from '@breakfall/supervisor/platform'
import { openFolder, type OpenFolder, type Owner } from '../files/walk.ts'
import { writeFully } from '../lib/disk.ts'
import { bytesOf, shown, type TreePath } from './listing.ts'
import { type RestorePlan, type Write, parentsOf } from './plan.ts'

export type ApplyContext = {
  /** Opens the workspace; throws if it is another folder. The caller closes it. */
  readonly open: () => OpenFolder
  readonly owner: Owner | undefined
  /** When the safety checkpoint started, in file system time. */
  readonly safeAt: bigint
  /** Of each object that the plan writes. */
  readonly sizes: ReadonlyMap<string, number>
  /** The content of each object, checked. Called with a bounded number of bytes at a time. */
  readonly blobs: (oids: readonly string[]) => Promise<ReadonlyMap<string, Buffer>>
  /** Called before our folder exists in the workspace: after a crash, a later process removes it. */
  readonly onStaging: (name: string) => void
}

export type Applied = {
  readonly restored: number
  readonly removed: number
  /** Left unchanged, with the reason. */
  readonly skipped: readonly { readonly path: string; readonly because: string }[]
}

/** What is in the way of a plan: paths that the safety checkpoint does not hold as they are, or that `isForeign` names. */
export function findObstacles(
  open: () => OpenFolder,
  plan: RestorePlan,
  safeAt: bigint,
  isForeign: (changedAt: bigint) => boolean,
): { readonly unsafe: readonly TreePath[]; readonly foreign: readonly TreePath[] } {
  const unsafe: TreePath[] = []
  const foreign: TreePath[] = []
  using root = open()
  const check = (path: TreePath, isExpected: boolean): void => {
    const stat = statAt(root, path)
    if (stat === undefined) return
    if (!isExpected || stat.ctimeNs >= safeAt || !isHeld(stat)) {
      if (!(stat.isDirectory() && !isExpected)) unsafe.push(path) // a folder in the way may be emptied by then
    } else if (isForeign(stat.ctimeNs)) foreign.push(path)
  }
  for (const { path, isNew } of plan.writes) check(path, !isNew)
  for (const path of plan.removals) check(path, true)
  for (const { path } of plan.modes) check(path, true)
  return { unsafe, foreign }
}

export async function applyPlan(context: ApplyContext, plan: RestorePlan): Promise<Applied> {
  using root = context.open()
  const staging = `.breakfall-${randomUUID()}`
  context.onStaging(staging)
  mkdirSync(root.at(staging), { mode: 0o700 })
  using staged = openFolder(root.itself, [staging])
  try {
    await stageAll(context, staged, plan.writes) // I1
    const { owner, safeAt } = context
    return await change({ owner, safeAt, root, staged, touched: new Map() }, plan)
  } finally {
    await removeStaged(root, staging, staged)
  }
}

/** Removes what a killed restore left. */
export async function removeStaging(root: OpenFolder, staging: string): Promise<void> {
  let staged: OpenFolder
  try {
    staged = openFolder(root.itself, [staging])
  } catch (error) {
    if (isMissing(error)) return // removed already, or a command took its name
    throw error
  }
  using folder = staged
  await removeStaged(root, staging, folder)
}

// ---- details, in the order they are used above ----

const O_PATH = 0o10_000_000
const [OBJECTS_AT_ONCE, BYTES_AT_ONCE] = [200, 16 * 1024 * 1024]
const PATHS_AT_ONCE = 50 // then others have a turn: the runner serves other boxes too

const isHeld = (stat: BigIntStats): boolean => stat.isFile() || stat.isSymbolicLink()

function split(path: TreePath): { readonly parents: readonly Buffer[]; readonly name: Buffer } {
  const parts = path.split('/').map(bytesOf)
  return { parents: parts.slice(0, -1), name: parts.at(-1) ?? Buffer.alloc(0) }
}

function statAt(root: OpenFolder, path: TreePath): BigIntStats | undefined {
  const { parents, name } = split(path)
  try {
    using parent = openFolder(root.itself, parents)
    return statIn(parent, name)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error) ?? '')

function statIn(parent: OpenFolder, name: Buffer): BigIntStats | undefined {
  let fd: number
  try {
    fd = openSync(parent.at(name), O_PATH | constants.O_NOFOLLOW)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    return fstatSync(fd, { bigint: true })
  } finally {
    closeSync(fd)
  }
}

/** By descriptor and one level deep: a command that takes the folder's name, or puts a link there, loses only what is ours. */
async function removeStaged(root: OpenFolder, staging: string, staged: OpenFolder): Promise<void> {
  for (const [i, name] of readdirSync(staged.itself, { encoding: 'buffer' }).entries()) {
    try {
      unlinkSync(staged.at(name))
    } catch (error) {
      if (!['ENOENT', 'EISDIR', 'EPERM'].includes(errorCode(error) ?? '')) throw error // a folder is not ours
    }
    if (i % PATHS_AT_ONCE === PATHS_AT_ONCE - 1) await setImmediate()
  }
  try {
    rmdirSync(root.at(staging))
  } catch (error) {
    if (!isMissing(error) && errorCode(error) !== 'ENOTEMPTY') throw error // it was renamed, or something is in it
  }
}

async function stageAll(context: ApplyContext, staged: OpenFolder, writes: readonly Write[]): Promise<void> {
  for (let from = 0; from < writes.length;) {
    let [to, bytes] = [from, 0]
    while (to < writes.length && to - from < OBJECTS_AT_ONCE && (to === from || bytes < BYTES_AT_ONCE)) {
      bytes += context.sizes.get(writes[to]?.oid ?? '') ?? 0
      to += 1
    }
    const some = writes.slice(from, to)
    const blobs = await context.blobs([...new Set(some.map(({ oid }) => oid))])
    for (const [i, write] of some.entries())
      stage(staged.at(String(from + i)), write, blobs.get(write.oid) ?? Buffer.alloc(0), context.owner)
    from = to
  }
}

function stage(file: string, { mode, perm }: Write, bytes: Buffer, owner: Owner | undefined): void {
  if (mode === '120000') {
    symlinkSync(bytes, file)
    if (owner !== undefined) lchownSync(file, owner.uid, owner.gid)
    return
  }
  const fd = openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  try {
    writeFully(fd, bytes)
    if (owner !== undefined) fchownSync(fd, owner.uid, owner.gid)
    fchmodSync(fd, perm)
  } finally {
    closeSync(fd)
  }
}

type Work = Pick<ApplyContext, 'owner' | 'safeAt'> & {
  readonly root: OpenFolder
  readonly staged: OpenFolder
  /** By inode: files that we have renamed or linked, as they were before. */
  readonly touched: Map<bigint, BigIntStats>
}

async function change(work: Work, plan: RestorePlan): Promise<Applied> {
  const { root } = work
  const skipped: { path: string; because: string }[] = []
  let [restored, removed, tried] = [0, 0, 0]
  const attempt = async (path: TreePath, one: () => string | undefined): Promise<boolean> => {
    let because: string | undefined
    try {
      because = one()
    } catch (error) {
      because = whyNot(error)
    }
    if (because !== undefined) skipped.push({ path: shown(path), because })
    tried += 1
    if (tried % PATHS_AT_ONCE === 0) await setImmediate()
    return because === undefined
  }
  const perms = new Map(makeWritable(root, plan))
  for (const path of plan.removals) if (await attempt(path, () => removeOne(work, path))) removed += 1
  for (const path of plan.emptied) removeEmpty(root, path)
  const make = work.owner ?? 'ours'
  for (const { path } of plan.folders.filter(({ isMade }) => isMade))
    await attempt(path, () => {
      openFolder(root.itself, path.split('/').map(bytesOf), make)[Symbol.dispose]()
      return undefined
    })
  for (const [i, write] of plan.writes.entries())
    if (await attempt(write.path, () => writeOne(work, write, String(i)))) restored += 1
  for (const { path, perm } of plan.modes) if (await attempt(path, () => changeMode(work, path, perm))) restored += 1
  for (const { path, perm } of plan.folders) perms.set(path, perm)
  // Innermost first: a folder may lose the permission to enter it.
  for (const [path, perm] of [...perms].toSorted(([a], [b]) => (a < b ? 1 : -1)))
    await attempt(path, () => changeFolder(root, path, perm))
  return { restored, removed, skipped }
}

function changeFolder(root: OpenFolder, path: TreePath, perm: number): undefined {
  try {
    using folder = openFolder(root.itself, path.split('/').map(bytesOf))
    chmodSync(folder.itself, perm)
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error // it was removed with what was in it
  }
}

const CHANGED = 'changed since the safety checkpoint'

/** I2: undefined if the path is unchanged, else the reason. Our own work changes the time of a file with several names. */
function whyChanged({ safeAt, touched }: Work, stat: BigIntStats | undefined, isExpected: boolean): string | undefined {
  if (!isExpected) return stat === undefined ? undefined : stat.isDirectory() ? 'a folder is in the way' : CHANGED
  if (stat === undefined || !isHeld(stat)) return CHANGED
  const before = touched.get(stat.ino)
  const isOurs = before !== undefined && isSame(before, stat)
  return stat.ctimeNs < safeAt || isOurs ? undefined : CHANGED
}

function removeOne(work: Work, path: TreePath): string | undefined {
  const { root, staged, touched } = work
  const { parents, name } = split(path)
  using parent = openFolder(root.itself, parents)
  const before = statIn(parent, name)
  if (before === undefined) return undefined // gone already
  const because = whyChanged(work, before, true)
  if (because !== undefined) return because
  const away = staged.at('removed')
  renameSync(parent.at(name), away)
  touched.set(before.ino, before)
  const after = statIn(staged, Buffer.from('removed'))
  if (after === undefined || !isSame(before, after)) {
    renameSync(away, parent.at(name)) // someone wrote at the last moment
    return CHANGED
  }
  unlinkSync(away)
  return undefined
}

function removeEmpty(root: OpenFolder, path: TreePath): void {
  const { parents, name } = split(path)
  try {
    using parent = openFolder(root.itself, parents)
    rmdirSync(parent.at(name))
  } catch {
    // Something is in it that no checkpoint holds, or it is gone.
  }
}

function writeOne(work: Work, { path, isNew }: Write & { readonly isNew: boolean }, file: string): string | undefined {
  const { root, staged, touched, owner } = work
  const { parents, name } = split(path)
  using parent = openFolder(root.itself, parents, owner ?? 'ours')
  const before = statIn(parent, name)
  const because = whyChanged(work, before, !isNew)
  if (because !== undefined) return because
  if (before === undefined) {
    if (!canLink(staged.at(file), parent.at(name))) {
      if (statIn(parent, name) !== undefined) return CHANGED
      renameSync(staged.at(file), parent.at(name)) // a file system without links
    }
    return undefined
  }
  touched.set(before.ino, before)
  const kept = staged.at('kept')
  const isKept = canLink(parent.at(name), kept)
  renameSync(staged.at(file), parent.at(name)) // I3: old or new, never nothing
  if (!isKept) return undefined
  const after = statIn(staged, Buffer.from('kept'))
  if (after !== undefined && !isSame(before, after)) {
    renameSync(kept, parent.at(name)) // someone wrote at the last moment
    return CHANGED
  }
  unlinkSync(kept)
  return undefined
}

/** Makes a hard link at a free path. Some systems allow that only to the file's owner. */
function canLink(from: string | Buffer, to: string | Buffer): boolean {
  try {
    linkSync(from, to)
    return true
  } catch {
    return false // the caller has a fallback
  }
}

const isSame = (a: BigIntStats, b: BigIntStats): boolean =>
  a.ino === b.ino && a.size === b.size && a.mtimeNs === b.mtimeNs

function changeMode(work: Work, path: TreePath, perm: number): string | undefined {
  const { root, touched } = work
  const { parents, name } = split(path)
  using parent = openFolder(root.itself, parents)
  const fd = openSync(parent.at(name), O_PATH | constants.O_NOFOLLOW)
  try {
    const stat = fstatSync(fd, { bigint: true })
    const because = stat.isFile() ? whyChanged(work, stat, true) : CHANGED
    if (because !== undefined) return because
    touched.set(stat.ino, stat)
    chmodSync(`${DESCRIPTORS}/${fd}`, perm)
    return undefined
  } finally {
    closeSync(fd)
  }
}

function whyNot(error: unknown): string {
  return REASONS[errorCode(error) ?? ''] ?? messageOf(error)
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  ENOTDIR: 'a file or link is in the way',
  ELOOP: 'a file or link is in the way',
  EXDEV: 'on another file system',
  EISDIR: 'a folder is in the way',
  EEXIST: 'a folder is in the way',
  ENOTEMPTY: 'a folder is in the way',
}

/**
 * Without root, the contents of a read-only folder cannot change: this makes such folders writable while a restore works.
 * Returns the permissions that they had. If we are killed, they stay writable for their owner. A folder that its
 * owner cannot list stays closed: no safety checkpoint holds what is in it.
 */
function makeWritable(
  root: OpenFolder,
  { removals, writes, modes, folders }: RestorePlan,
): readonly [TreePath, number][] {
  const uid = process.getuid?.() ?? 0
  if (uid === 0) return []
  const changed = [...removals, ...[...writes, ...modes, ...folders].map(({ path }) => path)]
  const parents = [...new Set(changed.flatMap(parentsOf))].toSorted()
  return parents.flatMap((path): [TreePath, number][] => {
    try {
      using folder = openFolder(root.itself, path.split('/').map(bytesOf))
      const { uid: owner, mode } = fstatSync(folder.fd)
      if (owner !== uid || (mode & OWNERS) !== READ_ONLY) return []
      chmodSync(folder.itself, (mode & PERM) | OWNERS)
      return [[path, mode & PERM]]
    } catch {
      return [] // not there, or not to be entered: what is in it is reported as skipped
    }
  })
}

const [PERM, OWNERS, READ_ONLY] = [0o7777, 0o700, 0o500]
