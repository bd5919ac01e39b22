/**
 * Boxes of deleted sessions that their runner could not remove yet, because it was away. They are noted in a file and removed
 * as soon as that runner is found again, by this daemon or a later one.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isFault } from '@breakfall/faults'
import type { Ports } from './ports.ts'
import { reachRunner } from './reach.ts'

export type LeftBox = { readonly boxId: string; readonly runnerId: string; readonly epoch: number }

export class LeftBoxes {
  readonly #ports: Ports
  readonly #file: string

  constructor(ports: Ports) {
    this.#ports = ports
    this.#file = join(ports.stateDir, 'boxes-left.json')
  }

  /** Removes the box now, or notes it for later. */
  async remove(box: LeftBox): Promise<void> {
    try {
      await this.#removed(box)
    } catch (thrown) {
      this.#ports.log.warn(
        { err: thrown, boxId: box.boxId },
        "a deleted session's box is removed when its runner is back",
      )
      this.#keep([...this.#kept(), box])
    }
  }

  /** That runner is there: what it has of deleted sessions goes. */
  async sweep(runnerId: string): Promise<void> {
    for (const box of this.#kept().filter((left) => left.runnerId === runnerId)) {
      try {
        await this.#removed(box)
        this.#keep(this.#kept().filter((left) => left.boxId !== box.boxId))
      } catch (thrown) {
        this.#ports.log.warn({ err: thrown, boxId: box.boxId }, "a deleted session's box is still there")
      }
    }
  }

  async #removed({ boxId, runnerId, epoch }: LeftBox): Promise<void> {
    const signal = AbortSignal.timeout(this.#ports.limits.killMsMax)
    try {
      await reachRunner(this.#ports, { runnerId, epoch }, signal, (client) => client.removeBox(boxId, { signal }))
    } catch (thrown) {
      if (!isFault(thrown) || thrown.category !== 'box_not_found') throw thrown
    }
  }

  #kept(): readonly LeftBox[] {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as LeftBox[]
    } catch {
      return [] // none was ever left, or nobody can tell any more which
    }
  }

  #keep(boxes: readonly LeftBox[]): void {
    try {
      if (boxes.length === 0) return rmSync(this.#file, { force: true })
      writeFileSync(`${this.#file}.new`, JSON.stringify(boxes), { mode: 0o600 })
      renameSync(`${this.#file}.new`, this.#file)
    } catch (thrown) {
      this.#ports.log.error({ err: thrown, boxes }, 'boxes of deleted sessions are left at their runner')
    }
  }
}
