/**
 * The checkpoints of one box.
 *
 * I1  One thing at a time happens to a box's store; commands never wait for it, except while a restore changes files.
 * I2  A restore starts only while nothing runs, and nothing else starts until it has ended.
 * I3  The newest checkpoint is never removed to make room for itself, nor are those that a restore is using.
 */
import { join } from 'node:path'
import { Fault, isFault } from '@breakfall/faults'
import type { Checkpoint, CheckpointDiff, CheckpointList, Restored, RestoreRequest } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { newId } from '@breakfall/wire/node'
import { Mutex } from '@breakfall/faults/internal'
import { isoTime } from '../lib/clock.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import type { WorkspaceAccess } from '../files/workspace-files.ts'
import type { RunnerHost } from '../host/host.ts'
import { makeFolder } from '../lib/disk.ts'
import { Activity } from './activity.ts'
import { removeStaging } from './apply.ts'
import { capture, type Captured } from './capture.ts'
import { type CommandPlace, GitError } from './git-command.ts'
import { shown } from './listing.ts'
import { CheckpointRecords } from './records.ts'
import { filesOf, planBetween, previewRestore, restore, type RestoreContext } from './restore.ts'
import { ShadowStore, type Snapshot } from './shadow-store.ts'
import { pathFault } from '../files/walk.ts'

/** What checkpoints need of their box. */
export type CheckpointedBox = {
  readonly id: string
  readonly git: string
  readonly folder: string
  readonly isAuto: boolean
  /** Ids of execs that run. */
  readonly live: () => readonly string[]
  /** The name of a background process; undefined if the exec is none. */
  readonly nameOf: (execId: string) => string | undefined
  /** Whether an exec is about to start. */
  readonly isStarting: () => boolean
  readonly workspace: () => WorkspaceAccess
  readonly place: (store: string) => CommandPlace
  /** Keeps file calls of the API out meanwhile. */
  readonly exclusive: <T>(work: () => T | Promise<T>) => Promise<T>
}

export class Checkpoints {
  readonly #host: RunnerHost
  readonly #box: CheckpointedBox
  readonly #activity: Activity
  readonly #records: CheckpointRecords
  readonly #work = new Mutex()
  #settling: Promise<void> = Promise.resolve()
  #restoring: Promise<unknown> | undefined
  #isAsked = false
  readonly #during = new Set<string>()
  readonly #closing = new AbortController()

  constructor(host: RunnerHost, box: CheckpointedBox) {
    this.#host = host
    this.#box = box
    makeFolder(box.folder)
    this.#activity = new Activity(box.folder)
    this.#records = new CheckpointRecords(join(box.folder, 'records.json'))
  }

  // ---- what happens in the box ----

  /** After a restart: removes what a killed restore left in the workspace. Files it had not changed yet stay unchanged. */
  async recover(): Promise<void> {
    this.#activity.recover()
    const { staging } = this.#records
    if (staging === null) return
    try {
      using root = this.#box.workspace().open()
      await removeStaging(root, staging)
    } catch {
      return // the folder is not there now; the next restart tries again
    }
    this.#records.setStaging(null)
  }

  /** An exec may start: resolves when no restore is under way. */
  async admitted(): Promise<void> {
    while (this.#restoring !== undefined) await this.#restoring.catch(ignored)
  }

  execStarts(execId: string): void {
    if (this.#box.isAuto && this.#isNewWork()) this.takeSoon(null)
    this.#activity.begin(execId)
    this.#during.add(execId)
  }

  execEnds(execId: string): void {
    this.#activity.end(execId)
  }

  /** The API writes or removes a file: on behalf of the box's owner. */
  fileChange<T>(work: () => T): T {
    const id = newId()
    this.#activity.begin(id)
    try {
      return work()
    } finally {
      this.#activity.end(id)
    }
  }

  close(): void {
    this.#closing.abort(new Fault('shutting_down', { boundary: 'runner' }))
  }

  // ---- what callers ask for ----

  list(): CheckpointList {
    return this.#records.list()
  }

  /** The state of a new box, unless its owner asks for a checkpoint right away. */
  takeFirst(): void {
    if (!this.#box.isAuto) return
    const timer = setTimeout(() => {
      if (!this.#isAsked) this.takeSoon(null)
    }, FIRST_MS)
    timer.unref()
  }

  /** Takes one in the background; a failure is listed as skipped. */
  takeSoon(label: string | null): void {
    const limitMs = this.#records.isEmpty ? RUNNER_DEFAULTS.checkpointFirstMs : RUNNER_DEFAULTS.checkpointMs
    this.take(label, limitMs).catch(ignored)
  }

  async take(label: string | null, limitMs: number = RUNNER_DEFAULTS.checkpointFirstMs): Promise<Checkpoint> {
    this.#isAsked = true
    try {
      return await this.#exclusive(limitMs, async (store, signal) => {
        const began = this.#begin()
        const captured = await capture(store, this.#host.limits.checkpoints, signal)
        const checkpoint = await this.#keep(store, captured, { ...began, label, kind: 'taken' }, signal)
        if (!(await this.#makeRoom(store, [checkpoint.id], signal))) await this.#refuse(store, checkpoint.id, signal)
        this.#settleSoon(store)
        return checkpoint
      })
    } catch (thrown) {
      const fault = checkpointFault(thrown, this.#box.id, limitMs)
      if (fault.category !== 'shutting_down')
        this.#records.skip({ at: isoTime(this.#host.clock.now()), label, because: fault.error })
      throw fault
    }
  }

  remove(id: string): Promise<void> {
    this.#records.get(this.#box.id, id)
    return this.#asked(async (store, signal) => {
      this.#records.remove([id])
      await store.drop([id], signal)
      await this.#prune(store, signal)
    })
  }

  /** What changed from a checkpoint to another one, or to now. */
  diff(id: string, to: string): Promise<CheckpointDiff> {
    return this.#compared(id, to, async (store, from, until, signal) => {
      const plan = await planBetween({ store, signal }, from, until)
      // These are still there, and the later checkpoint does not hold them.
      const grown = plan.leftOut.map((path) => ({ path: shown(path), change: 'changed' as const, bytes: 0 }))
      return { files: [...(await filesOf({ store, signal }, plan)), ...grown] }
    })
  }

  textDiff(id: string, to: string): Promise<Buffer> {
    return this.#compared(id, to, (store, from, until, signal) => store.textDiff(from, until, signal))
  }

  restore(id: string, request: RestoreRequest): Promise<Restored> {
    const { kind, label } = this.#records.get(this.#box.id, id)
    const isRedo = kind === 'safety' && label === null
    if (request.dryRun === true)
      return this.#asked((store, signal) => previewRestore(this.#context(store, signal, isRedo), id, request))
    this.#requireIdle()
    const restoring = this.#asked(async (store, signal) => {
      const restored = await restore(this.#context(store, signal, isRedo), id, request)
      const kept = restored.safety === null ? [id] : [id, restored.safety]
      await this.#makeRoom(store, kept, signal).catch(ignored) // the next checkpoint tries again
      this.#settleSoon(store)
      return restored
    }).finally(() => {
      this.#restoring = undefined
    })
    this.#restoring = restoring // I2: nothing starts during a restore
    return restoring
  }

  // ---- details, in the order they are used above ----

  /** A command after a pause, with changes since the last checkpoint. */
  #isNewWork(): boolean {
    const { lastEnd } = this.#activity
    const last = this.#records.newest
    if (last === undefined) return !this.#isAsked
    if (lastEnd === null || this.#box.live().length > 0) return false
    const endedAtMs = Number(lastEnd / 1_000_000n)
    return Date.parse(last.at) < endedAtMs && this.#host.clock.now() - endedAtMs >= RUNNER_DEFAULTS.checkpointIdleMs
  }

  #begin(): { readonly atMs: number; readonly fromMs: number } {
    this.#during.clear()
    for (const execId of this.#box.live()) this.#during.add(execId)
    return { atMs: this.#host.clock.now(), fromMs: this.#host.clock.monotonicMs() }
  }

  async #keep(
    store: ShadowStore,
    captured: Captured,
    about: { readonly atMs: number; readonly fromMs: number } & Pick<Checkpoint, 'label' | 'kind'>,
    signal: AbortSignal,
  ): Promise<Checkpoint> {
    const id = newId()
    await store.keep(id, captured, signal)
    const checkpoint: Checkpoint = {
      id,
      at: isoTime(about.atMs),
      label: about.label,
      kind: about.kind,
      files: captured.files,
      bytes: captured.bytes,
      tookMs: Math.round(this.#host.clock.monotonicMs() - about.fromMs),
      during: [...this.#during],
      left: captured.left,
    }
    this.#records.add(checkpoint)
    return checkpoint
  }

  /** Removes the oldest, except `kept`, until the store fits its budget. False if it cannot. I3 */
  async #makeRoom(store: ShadowStore, kept: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { bytesMax } = this.#host.limits.checkpoints
    for (;;) {
      const { loose, bytes } = await store.size(signal)
      this.#records.setBytes(bytes)
      const { oldest, count } = this.#records
      const isOver = bytes > bytesMax || count > RUNNER_DEFAULTS.checkpointsMax
      const dropped = oldest.filter((id) => !kept.includes(id)).slice(0, Math.ceil(count / 4))
      if (isOver && dropped.length === 0) return false
      if (!isOver && loose <= LOOSE_MAX) return true
      if (isOver) {
        this.#records.remove(dropped)
        await store.drop(dropped, signal)
      }
      await this.#prune(store, signal)
      if (!isOver) return true
    }
  }

  /** It alone is larger than the budget. */
  async #refuse(store: ShadowStore, id: string, signal: AbortSignal): Promise<never> {
    this.#records.remove([id])
    await store.drop([id], signal)
    store.forgetIndex() // it names the objects
    await this.#prune(store, signal)
    const { bytesMax } = this.#host.limits.checkpoints
    throw new Fault('quota_exceeded', { facts: { limit: `at most ${bytesMax} bytes of checkpoints in a box` } })
  }

  async #prune(store: ShadowStore, signal: AbortSignal): Promise<void> {
    await this.#settling
    await store.keepOnly(this.#records.oldest, signal)
    await store.prune(signal)
    this.#records.setBytes((await store.size(signal)).bytes)
  }

  /** Copies what the first checkpoint borrowed from the workspace's repository. */
  #settleSoon(store: ShadowStore): void {
    if (!store.isSeeded) return
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(RUNNER_DEFAULTS.restoreMs)])
    this.#settling = this.#settling.then(() => store.settle(signal)).catch(ignored) // the next checkpoint tries again
  }

  #compared<T>(
    id: string,
    to: string,
    work: (store: ShadowStore, from: Snapshot, until: Snapshot, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    this.#records.get(this.#box.id, id)
    if (to !== 'now') this.#records.get(this.#box.id, to)
    return this.#asked(async (store, signal) => {
      const until =
        to === 'now' ? await capture(store, this.#host.limits.checkpoints, signal) : await store.load(to, signal)
      return work(store, await store.load(id, signal), until, signal)
    })
  }

  #context(store: ShadowStore, signal: AbortSignal, isRedo: boolean): RestoreContext {
    const { id: boxId, workspace, exclusive } = this.#box
    const { checkpoints: limits } = this.#host.limits
    const began = this.#begin()
    const [activity, records] = [this.#activity, this.#records]
    const keepSafety = (captured: Captured): Promise<Checkpoint> =>
      this.#keep(store, captured, { ...began, label: isRedo ? REDO_LABEL : null, kind: 'safety' }, signal)
    return { boxId, store, signal, limits, activity, records, workspace, exclusive, keepSafety }
  }

  /** I2: nothing starts during a restore. */
  #requireIdle(): void {
    const live = this.#box.live()
    const isRestoring = this.#restoring !== undefined
    if (live.length === 0 && !isRestoring && !this.#box.isStarting()) return
    const [execId] = live
    const name = execId === undefined ? undefined : this.#box.nameOf(execId)
    const running = name === undefined ? `exec ${execId} is running` : `the background process ${name} is running`
    throw new Fault('workspace_busy', {
      facts: { detail: isRestoring ? 'a restore is under way' : execId ? running : 'an exec is starting' },
      errorRaw: `${live.length === 1 ? '1 exec is' : `${live.length} execs are`} running: ${live.slice(0, 10).join(', ')}`,
      boxId: this.#box.id,
      execId,
    })
  }

  #asked<T>(work: (store: ShadowStore, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#exclusive(RUNNER_DEFAULTS.restoreMs, work).catch((thrown: unknown) => {
      throw checkpointFault(thrown, this.#box.id, RUNNER_DEFAULTS.restoreMs)
    })
  }

  /** I1. The time limit starts with the work. */
  #exclusive<T>(limitMs: number, work: (store: ShadowStore, signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#work.run(async () => {
      this.#closing.signal.throwIfAborted()
      return this.#host.captures.run(() => {
        const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(limitMs)])
        const folder = join(this.#box.folder, 'store')
        makeFolder(folder)
        return work(new ShadowStore(this.#box.git, this.#box.place(folder)), signal)
      })
    })
  }
}

/** Refuses checkpoints of a box that has none. */
export function requireCheckpoints(checkpoints: Checkpoints | undefined): Checkpoints {
  if (checkpoints !== undefined) return checkpoints
  const expected = 'a box that was created with checkpoints "auto" or "manual"'
  throw invalidRequest([{ field: 'checkpoints', expected, got: 'off' }])
}

const FIRST_MS = 50
/** Of the safety checkpoint before an undo is reversed. */
const REDO_LABEL = 'before a redo'
const LOOSE_MAX = 4_000 // loose objects; beyond that they are packed

const ignored = (): void => {
  // The caller that waits for it has the error, or it is listed as skipped.
}

/** Files are never changed before everything that can fail has succeeded. */
function checkpointFault(thrown: unknown, boxId: string, limitMs: number): Fault {
  if (isFault(thrown)) return thrown.with({ boxId })
  if (thrown instanceof DOMException && thrown.name === 'TimeoutError')
    return new Fault('deadline_exceeded', {
      boundary: 'box',
      boxId,
      error: `The checkpoint took longer than ${limitMs / 1000} s and was skipped. The next one continues from there.`,
      errorRaw: `no checkpoint within ${limitMs} ms`,
    })
  if (thrown instanceof GitError && /no space left|disk quota/i.test(thrown.message))
    return new Fault('journal_full', {
      boundary: 'box',
      boxId,
      cause: thrown,
      error: 'The disk is full. No file of the workspace was changed.',
    })
  const fault = pathFault(thrown, 'the workspace', 'write')
  return fault.category === 'journal_full' || fault.category === 'forbidden'
    ? fault.with({ boxId })
    : new Fault('other', {
        boundary: 'box',
        boxId,
        cause: thrown,
        error: 'The checkpoint could not be taken or read. No file of the workspace was changed.',
      })
}
