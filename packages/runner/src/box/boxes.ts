/** All boxes of a runner, by prefix and id: creates, finds and removes them. */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Box as BoxRecord, BoxCreate } from '@breakfall/wire'
import { ID_PATTERN } from '@breakfall/wire/internal'
import { isoTime } from '../lib/clock.ts'
import type { HomeFiles } from '../home/home-files.ts'
import type { RunnerHost } from '../host/host.ts'
import { within } from '@breakfall/faults/internal'
import { makeFolder, removeTree } from '../lib/disk.ts'
import { Box } from './box.ts'
import { designBox, unreadableBox } from './create.ts'
import { countBoxes, type BoxCounts, requireRoomToMake, requireRoomToRun } from './quota.ts'
import { recoverBox } from './recover.ts'
import { type BoxPaths, boxPaths, loadBox, makeBoxFolders, saveBox, type StoredBox } from './stored-box.ts'
import { newId } from '@breakfall/wire/node'

export class Boxes {
  readonly #host: RunnerHost
  readonly #boxes = new Map<string, Box>()
  readonly #root: string
  readonly #trash: string
  readonly #deletions = new Set<Promise<void>>()
  readonly #removing = new Map<string, Promise<void>>()
  readonly #onProblem: (what: string, error: unknown) => void

  constructor(host: RunnerHost, onProblem: (what: string, error: unknown) => void) {
    this.#host = host
    this.#onProblem = onProblem
    this.#root = join(host.stateDir, 'boxes')
    this.#trash = join(host.stateDir, 'trash')
    makeFolder(this.#root)
    makeFolder(this.#trash)
  }

  all(): readonly Box[] {
    return [...this.#boxes.values()]
  }

  /** Whether anything runs, or is to be started again. */
  get isBusy(): boolean {
    return this.all().some((box) => box.execs.live.size > 0 || box.restarts.waiting.length > 0)
  }

  liveExecs(): number {
    return this.all().reduce((sum, box) => sum + box.execs.live.size, 0)
  }

  ofPrefix(prefix: string): readonly Box[] {
    return this.all()
      .filter((box) => box.prefix === prefix)
      .toSorted((a, b) => (a.id < b.id ? -1 : 1))
  }

  find(prefix: string, id: string): Box | undefined {
    return this.#boxes.get(`${prefix}/${id}`)
  }

  get(prefix: string, id: string): Box {
    const box = this.find(prefix, id)
    if (box === undefined)
      throw new Fault('box_not_found', { facts: { name: id.slice(0, 128) }, boxId: id.slice(0, 128) })
    return box
  }

  counts(prefix: string): BoxCounts {
    return countBoxes(this.all().filter((box) => box.prefix === prefix))
  }

  /** The record that a new box would start with, or that of the existing box. Refuses what `create` and `start` would refuse. */
  design(prefix: string, create: BoxCreate, allowed?: readonly string[]): BoxRecord {
    const id = create.id ?? newId()
    const existing = this.#boxes.get(`${prefix}/${id}`)
    if (existing !== undefined) {
      if (existing.state === 'stopped') requireRoomToRun(this.#host.limits, this.counts(prefix))
      return existing.record
    }
    requireRoomToMake(this.#host.limits, this.counts(prefix))
    return designBox(this.#host, id, create, boxPaths(join(this.#root, prefix, id)), 0, allowed).record
  }

  create(
    prefix: string,
    create: BoxCreate,
    epoch: number | undefined,
    files: HomeFiles = new Map(),
    allowed?: readonly string[],
  ): Box {
    const id = create.id ?? newId()
    const { fences } = this.#host
    const existing = this.find(prefix, id)
    existing?.admit(epoch, false)
    fences.check(`${prefix}/${id}`, epoch)
    if (existing !== undefined) throw new Fault('box_already_exists', { facts: { name: id }, boxId: id })
    requireRoomToMake(this.#host.limits, this.counts(prefix))
    const paths = boxPaths(join(this.#root, prefix, id))
    const stored = designBox(this.#host, id, create, paths, epoch ?? fences.epochOf(`${prefix}/${id}`), allowed)
    makeFolder(join(this.#root, prefix))
    if (existsSync(paths.folder)) this.#discard(paths.folder) // left by a creation that did not get as far as a record
    try {
      makeBoxFolders(paths, stored, files)
      const box = this.#box(prefix, paths, stored)
      box.openGroups()
      box.moveTo('running')
      this.#boxes.set(`${prefix}/${id}`, box)
      if (box.names !== undefined)
        void box.openNetwork().catch((error: unknown) => this.#onProblem(`cannot open the network of box ${id}`, error))
      box.checkpoints?.takeFirst()
      return box
    } catch (error) {
      rmSync(paths.folder, { recursive: true, force: true })
      throw error
    }
  }

  #box(prefix: string, paths: BoxPaths, stored: StoredBox): Box {
    return new Box(this.#host, prefix, paths, stored, () => requireRoomToRun(this.#host.limits, this.counts(prefix)))
  }

  /** Stops the box first. A second caller waits for the same removal. */
  remove(box: Box): Promise<void> {
    const key = `${box.prefix}/${box.id}`
    let removing = this.#removing.get(key)
    if (removing === undefined) {
      removing = this.#remove(box, key).finally(() => this.#removing.delete(key))
      this.#removing.set(key, removing)
    }
    return removing
  }

  /** Forgets fences of boxes that are long gone. */
  sweepFences(): void {
    this.#host.fences.sweep((key) => this.#boxes.has(key))
  }

  /** What is still being deleted, for at most this long: the next runner deletes the rest. */
  async emptied(ms: number): Promise<void> {
    await within(Promise.all(this.#deletions), ms)
  }

  /** Recovers what an earlier process left. A broken box does not affect the others. */
  async recover(): Promise<void> {
    for (const name of readdirSync(this.#trash)) this.#deleteLater(join(this.#trash, name))
    for (const prefix of foldersIn(this.#root)) {
      for (const id of foldersIn(join(this.#root, prefix))) {
        try {
          await this.#recoverOne(prefix, id)
        } catch (error) {
          this.#onProblem(`cannot recover box ${prefix}/${id}`, error)
          this.#markFailed(prefix, id)
        }
      }
    }
    this.#sweepGroups()
  }

  /** Removes control groups of an earlier process that no box here uses. */
  #sweepGroups(): void {
    const used = new Set<string>()
    for (const box of this.all()) {
      if (box.state === 'running' || box.state === 'stopping') used.add(box.groupName)
      for (const exec of box.execs.live.values()) used.add(`${box.groupName}/${exec.keeperName}`)
    }
    this.#host.cgroups.sweep((box, keeper) => used.has(keeper === undefined ? box : `${box}/${keeper}`))
  }

  /** What ran in it is unknown: it takes no commands, is still found, and can be removed. */
  #markFailed(prefix: string, id: string): void {
    const paths = boxPaths(join(this.#root, prefix, id))
    const known = this.#boxes.get(`${prefix}/${id}`)?.stored ?? unreadableBox(this.#host, id)
    const at = isoTime(this.#host.clock.now())
    const record = {
      ...known.record,
      state: 'failed' as const,
      lastTransition: { at, from: known.record.state, to: 'failed' as const },
    }
    this.#boxes.set(`${prefix}/${id}`, this.#box(prefix, paths, { ...known, record }))
  }

  async #recoverOne(prefix: string, id: string): Promise<void> {
    const paths = boxPaths(join(this.#root, prefix, id))
    const stored = loadBox(paths)
    if (stored === undefined) {
      this.#discard(paths.folder)
      return
    }
    const box = this.#box(prefix, paths, stored)
    this.#boxes.set(`${prefix}/${id}`, box)
    if (box.state === 'running') box.openGroups()
    await recoverBox(this.#host, box, this.#onProblem)
    box.reopenNames()
    if (box.state === 'stopping') await box.stop()
    if (box.state === 'removing') await this.remove(box)
    if (box.state === 'creating') {
      stored.record = { ...stored.record, state: 'failed' }
      saveBox(paths, stored)
    }
  }

  async #remove(box: Box, key: string): Promise<void> {
    if (box.state === 'running' || box.state === 'stopping') await box.stop()
    if (box.state === 'stopped' || box.state === 'failed') box.moveTo('removing')
    box.reservations.close()
    box.checkpoints?.close()
    this.#keepEpoch(box)
    this.#discard(box.paths.folder)
    this.#boxes.delete(key)
  }

  /** The box goes, its epoch stays: a request of an earlier owner must not make the box again. */
  #keepEpoch({ key, stored: { epoch } }: Box): void {
    try {
      if (epoch > this.#host.fences.epochOf(key)) this.#host.fences.raise(key, epoch)
    } catch (error) {
      // Removing a box makes room on a full disk, so it must not fail because of one.
      this.#onProblem(`cannot keep the epoch of the removed box ${key}`, error)
    }
  }

  /** Gone at once for every caller; the files are deleted in the background. */
  #discard(folder: string): void {
    const to = join(this.#trash, newId())
    renameSync(folder, to)
    this.#deleteLater(to)
  }

  #deleteLater(folder: string): void {
    const deleting = removeTree(folder)
      .catch((error: unknown) => this.#onProblem(`cannot delete ${folder}`, error))
      .finally(() => this.#deletions.delete(deleting))
    this.#deletions.add(deleting)
  }
}

/** Only names that we give; anything else in the folder is not ours. */
function foldersIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && ID_PATTERN.test(entry.name))
    .map(({ name }) => name)
}
