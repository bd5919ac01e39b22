/** The list of a box's checkpoints on disk. */
import { Fault } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import { type Checkpoint, type CheckpointList, checkpointListSchema } from '@breakfall/wire'
import { readJsonFile, writeJsonDurably } from '../lib/disk.ts'

type Skipped = CheckpointList['skipped'][number]

export class CheckpointRecords {
  readonly #file: string
  #list: CheckpointList
  #staging: string | null

  constructor(file: string) {
    this.#file = file
    const json = readOrNothing(file)
    const parsed = checkpointListSchema.safeParse(json)
    this.#list = parsed.success ? parsed.data : { checkpoints: [], skipped: [], bytes: 0 }
    const staging = isObject(json) ? json['staging'] : undefined
    this.#staging = typeof staging === 'string' && STAGING.test(staging) ? staging : null
  }

  list(): CheckpointList {
    const { checkpoints, skipped, bytes } = this.#list
    return { checkpoints, skipped, bytes }
  }

  get(boxId: string, id: string): Checkpoint {
    const found = this.#list.checkpoints.find((checkpoint) => checkpoint.id === id)
    if (found !== undefined) return found
    throw new Fault('checkpoint_not_found', { facts: { name: id.slice(0, 128) }, boxId })
  }

  get count(): number {
    return this.#list.checkpoints.length
  }

  get isEmpty(): boolean {
    return this.count === 0
  }

  get newest(): Checkpoint | undefined {
    return this.#list.checkpoints.at(-1)
  }

  /** Ids, oldest first. */
  get oldest(): readonly string[] {
    return this.#list.checkpoints.map(({ id }) => id)
  }

  /** The folder in the workspace that a restore is using. */
  get staging(): string | null {
    return this.#staging
  }

  add(checkpoint: Checkpoint): void {
    this.#change({ checkpoints: [...this.#list.checkpoints, checkpoint] })
  }

  remove(ids: readonly string[]): void {
    this.#change({ checkpoints: this.#list.checkpoints.filter(({ id }) => !ids.includes(id)) })
  }

  /** For people to see; not worth a failure. */
  skip(skipped: Skipped): void {
    this.#list = { ...this.#list, skipped: [...this.#list.skipped, skipped].slice(-SKIPPED_MAX) }
    try {
      this.#save()
    } catch {
      // A full disk may be why it was skipped.
    }
  }

  setBytes(bytes: number): void {
    if (bytes !== this.#list.bytes) this.#change({ bytes })
  }

  setStaging(name: string | null): void {
    if (this.#staging === name) return
    this.#staging = name
    this.#save() // before the folder exists
  }

  /** Best effort: a later process finds nothing to remove. */
  forgetStaging(): void {
    try {
      this.setStaging(null)
    } catch {
      // The disk is full.
    }
  }

  #change(part: Partial<CheckpointList>): void {
    const before = this.#list
    this.#list = { ...before, ...part }
    try {
      this.#save()
    } catch (error) {
      this.#list = before
      throw error
    }
  }

  #save(): void {
    writeJsonDurably(this.#file, { ...this.#list, staging: this.#staging })
  }
}

const SKIPPED_MAX = 20
const STAGING = /^\.breakfall-[0-9a-f-]{36}$/

/** A damaged list must not damage the box: its checkpoints are lost, the files are not. */
function readOrNothing(file: string): unknown {
  try {
    return readJsonFile(file)
  } catch {
    return undefined
  }
}
