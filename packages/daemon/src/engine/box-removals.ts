/**
 * Boxes of deleted sessions that could not be removed because their runner was unreachable. A file lists them; they are removed
 * when that runner is found again, by this daemon or a later one.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isFault } from '@breakfall/faults'
import { z } from 'zod'
import type { Ports } from './ports.ts'
import { cleanUpAtRunner } from './runner-cleanup.ts'

const boxRemovalsSchema = z.array(z.object({ boxId: z.string(), runnerId: z.string(), epoch: z.int() }))
type BoxRemoval = Readonly<z.infer<typeof boxRemovalsSchema>[number]>

export class BoxRemovals {
  readonly #ports: Ports
  readonly #file: string

  constructor(ports: Ports) {
    this.#ports = ports
    this.#file = join(ports.stateDir, 'boxes-left.json')
  }

  /** Removes the box now, or lists it for later. */
  async remove(box: BoxRemoval): Promise<void> {
    try {
      await this.#remove(box)
    } catch (thrown) {
      this.#ports.log.warn(
        { err: thrown, boxId: box.boxId },
        "cannot remove a deleted session's box now; it will be removed when its runner is back",
      )
      this.#write([...this.#read(), box])
    }
  }

  /** This runner is reachable: removes its boxes of deleted sessions. */
  async sweep(runnerId: string): Promise<void> {
    for (const box of this.#read().filter((listed) => listed.runnerId === runnerId)) {
      try {
        await this.#remove(box)
        this.#write(this.#read().filter((listed) => listed.boxId !== box.boxId))
      } catch (thrown) {
        this.#ports.log.warn({ err: thrown, boxId: box.boxId }, "a deleted session's box still exists")
      }
    }
  }

  async #remove({ boxId, runnerId, epoch }: BoxRemoval): Promise<void> {
    const signal = AbortSignal.timeout(this.#ports.limits.killMsMax)
    try {
      await cleanUpAtRunner(this.#ports, { runnerId, epoch }, signal, (client) => client.removeBox(boxId, { signal }))
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'box_not_found') throw thrown
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
      this.#ports.log.error({ err: thrown, boxes }, 'boxes of deleted sessions stay at their runner')
    }
  }
}
