/**
 * Processes of a box that have ended but still count against its process limit. The kernel counts a process until its parent
 * collects it. The init of a sandbox ends a moment after bubblewrap, so its parent is then the machine's PID 1, which can take a
 * second, and in a container without an init it never happens. So the limit is raised by these: no command fails because earlier ones
 * ended a moment ago.
 *
 * I1  A process is counted only if this runner ended it or saw it end. A command that never collects its own children gains nothing.
 * I2  At most `max` are counted, so a machine whose PID 1 never collects them does not run out of process ids.
 * I3  Of those that just ended, no more are counted than the box's own limit (or `FRESH_MIN`). PID 1 may collect them before the limit
 *     falls again, and a command that forks without end takes what is free then: so it gets about twice the limit at most.
 */
import type { Proven } from '../exec/process-table.ts'

export class EndedProcesses {
  readonly #startTimeOf: (pid: number) => number | undefined
  readonly #max: number
  /** Start times by pid, in the order in which they are looked at. */
  readonly #uncollected = new Map<number, Proven['startTime']>()
  /** Those of them that have not been looked at again. */
  readonly #fresh = new Set<number>()

  /** `startTimeOf` knows zombies too. */
  constructor(startTimeOf: (pid: number) => number | undefined, max: number) {
    this.#startTimeOf = startTimeOf
    this.#max = max
  }

  get isEmpty(): boolean {
    return this.#uncollected.size === 0
  }

  /** I3: `limit` is that of the box. */
  count(limit: number): number {
    return this.#uncollected.size - Math.max(0, this.#fresh.size - Math.max(limit, FRESH_MIN))
  }

  /** They are over, or were just killed (I1). */
  add(pids: Iterable<number>): void {
    for (const pid of pids) {
      if (this.#uncollected.size >= this.#max) this.collect(LOOKS_WHEN_FULL)
      if (this.#uncollected.size >= this.#max) return // I2
      const startTime = this.#startTimeOf(pid)
      if (startTime === undefined || this.#uncollected.get(pid) === startTime) continue
      this.#uncollected.set(pid, startTime)
      this.#fresh.add(pid)
    }
  }

  clear(): void {
    this.#uncollected.clear()
    this.#fresh.clear()
  }

  /** Forgets those that have been collected. It looks at no more than `looks` of them, the longest unseen first. */
  collect(looks: number): void {
    for (const [pid, startTime] of [...this.#uncollected].slice(0, looks)) {
      this.#uncollected.delete(pid)
      this.#fresh.delete(pid)
      if (this.#startTimeOf(pid) === startTime) this.#uncollected.set(pid, startTime)
    }
  }
}

const LOOKS_WHEN_FULL = 8
const FRESH_MIN = 64 // short commands of a box with a small limit, in the time between two looks
