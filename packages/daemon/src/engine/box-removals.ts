/**
 * Removes the boxes of deleted sessions. A file lists them from before their sessions are deleted until they are gone, so neither a
 * crash nor a runner that is away leaves one behind: they are removed when that runner is found again, by this daemon or a later one.
 *
 * I1  A listed box whose session still exists is not removed: the daemon died before it deleted the session.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isFault } from '@breakfall/faults'
import { z } from 'zod'
import type { Ports } from './ports.ts'
import { cleanUpAtRunner } from './runner-cleanup.ts'

const boxRemovalsSchema = z.array(z.object({ boxId: z.string(), runnerId: z.string(), epoch: z.int() }))
export type BoxRemoval = Readonly<z.infer<typeof boxRemovalsSchema>[number]>

export class BoxRemovals {
  readonly #ports: Ports
  readonly #file: string

  constructor(ports: Ports) {
    this.#ports = ports
    this.#file = join(ports.stateDir, 'boxes-left.json')
  }

  /** Before the sessions are deleted. */
  list(boxes: readonly BoxRemoval[]): void {
    if (boxes.length > 0) this.#write([...without(this.#read(), boxes), ...boxes])
  }

  /** The sessions are deleted: removes their boxes now, or leaves them on the list. */
  async remove(boxes: readonly BoxRemoval[]): Promise<void> {
    const removed: BoxRemoval[] = []
    for (const group of Map.groupBy(boxes, ({ runnerId }) => runnerId).values())
      removed.push(...(await this.#removeGroup(group)))
    const left = without(boxes, removed)
    if (boxes.length > 0) this.#write([...without(this.#read(), boxes), ...left])
  }

  /** This runner is reachable: removes its boxes of deleted sessions. */
  async sweep(runnerId: string): Promise<void> {
    await this.remove(this.#read().filter((listed) => listed.runnerId === runnerId))
  }

  /** Returns those that are gone. The first one shows whether the runner can be reached. */
  async #removeGroup([first, ...others]: readonly BoxRemoval[]): Promise<readonly BoxRemoval[]> {
    if (first === undefined) return []
    if (!(await this.#isRemoved(first))) return []
    const removed = [first]
    const rest = others[Symbol.iterator]()
    const worker = async (): Promise<void> => {
      for (const box of rest) if (await this.#isRemoved(box)) removed.push(box)
    }
    await Promise.all(Array.from({ length: REMOVALS_AT_ONCE }, worker))
    return removed
  }

  async #isRemoved({ boxId, runnerId, epoch }: BoxRemoval): Promise<boolean> {
    const signal = AbortSignal.timeout(this.#ports.limits.killMsMax)
    try {
      if ((await this.#ports.store.sessionsOfBox(boxId)).length > 0) return true // I1
      await cleanUpAtRunner(this.#ports, { runnerId, epoch }, signal, (client) => client.removeBox(boxId, { signal }))
      return true
    } catch (thrown) {
      if (isFault(thrown) && thrown.category === 'box_not_found') return true
      const message = "cannot remove a deleted session's box now; it will be removed when its runner is back"
      this.#ports.log.warn({ err: thrown, boxId }, message)
      return false
    }
  }

  #read(): readonly BoxRemoval[] {
    try {
      return boxRemovalsSchema.parse(JSON.parse(readFileSync(this.#file, 'utf8')))
    } catch {
      return [] // nothing was ever listed, or the list is unreadable
    }
  }

  #write(boxes: readonly BoxRemoval[]): void {
    try {
      if (boxes.length === 0) return rmSync(this.#file, { force: true })
      writeFileSync(`${this.#file}.new`, JSON.stringify(boxes), { mode: 0o600 })
      renameSync(`${this.#file}.new`, this.#file)
    } catch (thrown) {
      this.#ports.log.error({ err: thrown, boxes }, 'boxes of deleted sessions may stay at their runner')
    }
  }
}

// ---- details ----

const REMOVALS_AT_ONCE = 8

function without(boxes: readonly BoxRemoval[], removed: readonly BoxRemoval[]): readonly BoxRemoval[] {
  const ids = new Set(removed.map(({ boxId }) => boxId))
  return boxes.filter(({ boxId }) => !ids.has(boxId))
}
