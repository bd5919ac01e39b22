/**
 * What a box's owners have settled, also while there is no box: the highest epoch, and the exec ids that must never start.
 * A request of an earlier owner may arrive long after that owner was replaced, and after its box was removed.
 *
 * I1  Nothing is acknowledged before it is on disk, like a reservation: a killed runner keeps its fences.
 * I2  A fence without a box is kept for a week. No request is under way that long.
 */
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { replaceFile } from '@breakfall/supervisor/platform'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { SyncedLines } from '../lib/synced-lines.ts'

type Fence = { epoch: number; atMs: number; readonly burned: Set<string> }

export class Fences {
  readonly #file: string
  readonly #now: () => number
  readonly #fences = new Map<string, Fence>()
  #lines: SyncedLines

  constructor(stateDir: string, now: () => number) {
    this.#file = join(stateDir, 'fences')
    this.#now = now
    this.#lines = new SyncedLines(this.#file)
    for (const line of this.#lines.read()) this.#load(line)
  }

  /** The highest epoch that was seen while there was no box. */
  epochOf(box: string): number {
    return this.#fences.get(box)?.epoch ?? 0
  }

  /** Refuses an owner that has been replaced. */
  check(box: string, epoch: number | undefined): void {
    const seen = this.epochOf(box)
    if (epoch !== undefined && epoch < seen) throw replaced(box, epoch, seen)
  }

  /** From now on every lower epoch is refused, even after a crash. */
  raise(box: string, epoch: number): void {
    this.check(box, epoch)
    if (epoch === this.epochOf(box)) return
    const atMs = this.#now()
    this.#lines.addNow(`epoch ${box} ${epoch} ${atMs}`) // I1
    this.#set(box, epoch, atMs)
  }

  /** From now on no exec with this id starts in this box, or in a later box with the same id. */
  burn(box: string, execId: string): void {
    if (this.isBurned(box, execId)) return
    const atMs = this.#now()
    this.#lines.addNow(`burn ${box} ${execId} ${atMs}`) // I1
    this.#set(box, 0, atMs).burned.add(execId)
  }

  isBurned(box: string, execId: string): boolean {
    return this.#fences.get(box)?.burned.has(execId) === true
  }

  /** Forgets fences that no box needs and no request can meet any more. */
  sweep(hasBox: (box: string) => boolean): void {
    const old = [...this.#fences].filter(
      ([box, { atMs }]) => this.#now() - atMs > RUNNER_DEFAULTS.fenceMs && !hasBox(box),
    )
    if (old.length === 0) return
    for (const [box] of old) this.#fences.delete(box) // I2
    this.#rewrite()
  }

  close(): void {
    this.#lines.close()
  }

  // ---- details, in the order they are used above ----

  #load(line: string): void {
    const [kind, box, value, at] = line.split(' ')
    if (box === undefined || value === undefined || at === undefined) return
    if (kind === 'epoch') this.#set(box, Number(value), Number(at))
    if (kind === 'burn') this.#set(box, 0, Number(at)).burned.add(value)
  }

  #set(box: string, epoch: number, atMs: number): Fence {
    const fence = this.#fences.get(box) ?? { epoch: 0, atMs, burned: new Set<string>() }
    fence.epoch = Math.max(fence.epoch, epoch)
    fence.atMs = Math.max(fence.atMs, atMs)
    this.#fences.set(box, fence)
    return fence
  }

  #rewrite(): void {
    const lines = [...this.#fences].flatMap(([box, { epoch, atMs, burned }]) => [
      `epoch ${box} ${epoch} ${atMs}`,
      ...[...burned].map((execId) => `burn ${box} ${execId} ${atMs}`),
    ])
    replaceFile(this.#file, lines.map((line) => `${line}\n`).join(''), { isDurable: true })
    this.#lines.close()
    this.#lines = new SyncedLines(this.#file)
  }
}

/** The refusal that an owner gets when the box has seen a higher epoch. */
export function replaced(box: string, epoch: number, epochSeen: number): Fault {
  return new Fault('lease_lost', {
    boundary: 'box',
    boxId: box.slice(box.indexOf('/') + 1),
    epochSeen,
    errorRaw: `epoch ${epoch} is lower than ${epochSeen}`,
  })
}
