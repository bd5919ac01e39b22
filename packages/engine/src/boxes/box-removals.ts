/**
 * Removes the boxes of deleted sessions, and of sessions that have moved to another runner. A file, or the shared store, lists them
 * from before their sessions are deleted until they are gone, so neither a crash nor a runner that is away leaves one behind: they are
 * removed when that runner is found again, by this daemon or another one. A configured runner may have been away without being lost,
 * so its boxes are also tried again once a minute.
 *
 * I1  A listed box that a session still uses at that runner is not removed: the daemon died before it deleted the session.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isFault } from '@breakfall/faults'
import { replaceFile } from '@breakfall/supervisor/platform'
import { z } from 'zod'
import type { Runners } from '../runner/runners.ts'
import type { Store } from '../store/store.ts'
import type { BoxRemoval } from './box.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import { cleanUpAtRunner } from './runner-cleanup.ts'

const boxRemovalsSchema: z.ZodType<BoxRemoval[]> = z.array(
  z.object({ boxId: z.string(), runnerId: z.string(), epoch: z.int() }),
)

type RemovalParts = {
  readonly store: Store
  readonly runners: Runners
  readonly lifecycle: Lifecycle
  readonly stateDir: string
}

export class BoxRemovals {
  readonly #store: Store
  readonly #runners: Runners
  readonly #lifecycle: Lifecycle
  readonly #file: string

  constructor(parts: RemovalParts) {
    this.#store = parts.store
    this.#runners = parts.runners
    this.#lifecycle = parts.lifecycle
    this.#file = join(parts.stateDir, 'boxes-left.json')
  }

  /** Before the sessions are deleted. */
  async list(boxes: readonly BoxRemoval[]): Promise<void> {
    const { runners } = this.#store
    if (boxes.length === 0) return
    if (runners === undefined) this.#write([...without(this.#read(), boxes), ...boxes])
    else await runners.leave(boxes)
  }

  /** The sessions are deleted: removes their boxes now, or leaves them on the list. True if none is left. */
  async remove(boxes: readonly BoxRemoval[], isReturning = false): Promise<boolean> {
    const { runners } = this.#store
    if (boxes.length === 0) return true
    const removed: BoxRemoval[] = []
    for (const group of Map.groupBy(boxes, ({ runnerId }) => runnerId).values())
      removed.push(...(await this.#removeGroup(group, isReturning)))
    const left = without(boxes, removed)
    if (runners === undefined) this.#write([...without(this.#read(), boxes), ...left])
    else await runners.forget(removed)
    return left.length === 0
  }

  /** This runner is reachable: removes the boxes there that no session uses any more. True if none is left. */
  async sweep(runnerId: string): Promise<boolean> {
    const { runners } = this.#store
    const listed = runners === undefined ? this.#read() : await runners.leftBoxes(runnerId)
    return this.remove(
      listed.filter((box) => box.runnerId === runnerId),
      true,
    )
  }

  /** Tries what is left at a configured runner. Joined runners are swept when they report. */
  async retry(): Promise<void> {
    if (this.#store.runners !== undefined || this.#lifecycle.isClosing) return
    for (const runnerId of new Set(this.#read().map((box) => box.runnerId))) await this.sweep(runnerId)
  }

  /** Returns those that are gone. The first one shows whether the runner can be reached. */
  async #removeGroup([first, ...others]: readonly BoxRemoval[], isReturning: boolean): Promise<readonly BoxRemoval[]> {
    if (first === undefined) return []
    if (!(await this.#isRemoved(first, isReturning))) return []
    const removed = [first]
    const rest = others[Symbol.iterator]()
    const worker = async (): Promise<void> => {
      for (const box of rest) if (await this.#isRemoved(box, isReturning)) removed.push(box)
    }
    await Promise.all(Array.from({ length: REMOVALS_AT_ONCE }, worker))
    return removed
  }

  async #isRemoved({ boxId, runnerId, epoch }: BoxRemoval, isReturning: boolean): Promise<boolean> {
    const signal = this.#runners.clock.timeout(this.#runners.limits.killMsMax)
    try {
      const sessions = await this.#store.sessionsOfBox(boxId)
      if (sessions.some(({ data }) => data.runnerId === runnerId)) return true // I1
      await cleanUpAtRunner(this.#runners, { runnerId, epoch, isReturning }, signal, (client) =>
        client.removeBox(boxId, { signal }),
      )
      return true
    } catch (thrown) {
      if (isFault(thrown) && thrown.category === 'box_not_found') return true
      const message = "cannot remove a deleted session's box now; it will be removed when its runner is back"
      this.#runners.log.warn({ err: thrown, boxId }, message)
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
      replaceFile(this.#file, JSON.stringify(boxes))
    } catch (thrown) {
      this.#runners.log.error({ err: thrown, boxes }, 'boxes of deleted sessions may stay at their runner')
    }
  }
}

// ---- details ----

const REMOVALS_AT_ONCE = 8

function without(boxes: readonly BoxRemoval[], removed: readonly BoxRemoval[]): readonly BoxRemoval[] {
  const ids = new Set(removed.map(({ boxId }) => boxId))
  return boxes.filter(({ boxId }) => !ids.has(boxId))
}
