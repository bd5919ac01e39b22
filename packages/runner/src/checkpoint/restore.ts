/**
 * Restores files to a checkpoint, or says what that would do.
 *
 * I1  Before a file changes, a safety checkpoint holds what is there, or the file is left alone.
 * I2  A file that someone else changed is never overwritten without `force`.
 * I3  A file that was there and that the checkpoint does not hold, because it was ignored or too large, is not removed.
 */
import { Fault } from '@breakfall/faults'
import type { Checkpoint, CheckpointDiff, Restored, RestoreRequest } from '@breakfall/wire'
import type { WorkspaceAccess } from '../files/workspace-files.ts'
import type { CheckpointLimits } from '../host/options.ts'
import type { Activity } from './activity.ts'
import { type Applied, applyPlan, findObstacles } from './apply.ts'
import { capture, type Captured } from './capture.ts'
import { shown } from './listing.ts'
import { isEmptyPlan, namesIn, planRestore, previewOf, type RestorePlan, selection, unknownPaths } from './plan.ts'
import type { CheckpointRecords } from './records.ts'
import type { ShadowStore, Snapshot } from './shadow-store.ts'

export type RestoreContext = {
  readonly boxId: string
  readonly store: ShadowStore
  readonly signal: AbortSignal
  readonly limits: CheckpointLimits
  readonly activity: Activity
  readonly records: CheckpointRecords
  readonly workspace: () => WorkspaceAccess
  /** Keeps file calls of the API out meanwhile. */
  readonly exclusive: <T>(work: () => T | Promise<T>) => Promise<T>
  readonly keepSafety: (captured: Captured) => Promise<Checkpoint>
}

export async function previewRestore(context: RestoreContext, id: string, request: RestoreRequest): Promise<Restored> {
  const { plan, safeAt } = await compare(context, id, request)
  return {
    restored: plan.writes.length + plan.modes.length,
    removed: plan.removals.length,
    safety: null,
    files: await filesOf(context, plan),
    conflicts: conflictsIn(context, plan, safeAt),
    skipped: leftAlone(plan),
  }
}

export async function restore(context: RestoreContext, id: string, request: RestoreRequest): Promise<Restored> {
  const { now, plan, safeAt } = await compare(context, id, request)
  const conflicts = request.force === true ? [] : conflictsIn(context, plan, safeAt)
  if (conflicts.length > 0) throw conflict(context.boxId, conflicts) // I2
  if (isEmptyPlan(plan))
    return { restored: 0, removed: 0, safety: null, files: [], conflicts: [], skipped: leftAlone(plan) }
  const files = await filesOf(context, plan)
  const { id: safety } = await context.keepSafety(now) // I1
  const applied = await apply(context, plan, safeAt)
  return { ...applied, skipped: [...leftAlone(plan), ...applied.skipped], safety, files, conflicts: [] }
}

/** The steps from one state to another. */
export async function planBetween(
  { store, signal }: Pick<RestoreContext, 'store' | 'signal'>,
  now: Snapshot,
  then: Snapshot,
  paths?: readonly string[],
): Promise<RestorePlan> {
  return planRestore(await store.changes(now, then, signal), now.manifest, then.manifest, selection(paths))
}

export async function filesOf(
  { store, signal }: Pick<RestoreContext, 'store' | 'signal'>,
  plan: RestorePlan,
): Promise<CheckpointDiff['files']> {
  const sizes = await store.sizes(objectsOf(plan), signal)
  return previewOf(plan, (oid) => sizes.get(oid) ?? 0).slice(0, FILES_SHOWN_MAX)
}

// ---- details, in the order they are used above ----

const FILES_SHOWN_MAX = 1_000
const RESTORE = 'restore'

/** I3 */
const leftAlone = ({ leftOut }: RestorePlan): Restored['skipped'] =>
  leftOut
    .slice(0, FILES_SHOWN_MAX)
    .map((path) => ({ path: shown(path), because: 'it was there, but the checkpoint does not hold it' }))

const objectsOf = ({ writes }: RestorePlan): readonly string[] => [...new Set(writes.map(({ oid }) => oid))]

async function compare(
  context: RestoreContext,
  id: string,
  { paths }: RestoreRequest,
): Promise<{ readonly now: Captured; readonly plan: RestorePlan; readonly safeAt: bigint }> {
  const { store, signal, limits, activity } = context
  const safeAt = await activity.tick() // what changes from here on may be missing from the capture
  const now = await capture(store, limits, signal)
  const then = await store.load(id, signal)
  await refuseUnknown(context, paths ?? [], [now, then])
  return { now, safeAt, plan: await planBetween(context, now, then, paths) }
}

/** A path that is nowhere is a mistake, not a file that does not differ. */
async function refuseUnknown(
  { store, signal, boxId }: RestoreContext,
  paths: readonly string[],
  states: readonly Snapshot[],
): Promise<void> {
  if (paths.length === 0) return
  const names = namesIn(paths)
  const held = await Promise.all(states.map((state) => store.held(state, names, signal)))
  const manifests = states.map(({ manifest }) => manifest)
  const [first] = unknownPaths(paths, new Set(held.flat()), manifests)
  if (first === undefined) return
  throw new Fault('file_not_found', {
    error: `There is no ${first.slice(0, 200)} in the workspace, and there was none at the checkpoint. Nothing was changed. Paths are relative to the workspace.`,
    boxId,
  })
}

function conflictsIn({ workspace, activity }: RestoreContext, plan: RestorePlan, safeAt: bigint): readonly string[] {
  const { open } = workspace()
  const { unsafe, foreign } = findObstacles(open, plan, safeAt, (changedAt) => !activity.isOwn(changedAt))
  return [...unsafe, ...foreign].map(shown).toSorted()
}

function conflict(boxId: string, paths: readonly string[]): Fault {
  const [first = '', ...others] = paths
  const more = others.length === 0 ? '' : ` and ${others.length} other file${others.length === 1 ? '' : 's'}`
  return new Fault('checkpoint_conflict', {
    facts: { name: `${first.slice(0, 200)}${more}` },
    errorRaw: `changed outside: ${paths.slice(0, 20).join(', ')}`,
    boxId,
    paths,
  })
}

async function apply(context: RestoreContext, plan: RestorePlan, safeAt: bigint): Promise<Applied> {
  const { store, signal, activity, records } = context
  const { open, owner, guarding } = context.workspace()
  const { settle } = guarding()
  const blobs = (oids: readonly string[]): Promise<ReadonlyMap<string, Buffer>> => store.blobs(oids, signal)
  const sizes = await store.sizes(objectsOf(plan), signal)
  const onStaging = (name: string): void => records.setStaging(name)
  activity.begin(RESTORE)
  try {
    return await context.exclusive(() => applyPlan({ open, owner, safeAt, sizes, blobs, onStaging }, plan))
  } finally {
    settle()
    activity.end(RESTORE)
    records.forgetStaging()
  }
}
