/**
 * Processes of a box that have ended but still count against its process limit. The kernel counts a process until its parent
 * collects it. The init of a sandbox ends a moment after bubblewrap, so its parent is then the machine's PID 1, which can take a
 * second, and in a container without an init it never happens. So the limit is raised by these: no command fails because earlier ones
 * ended a moment ago, and the commands that live never get more than their box's limit.
 *
 * I1  A process is counted only if this runner ended it or saw it end. A command that never collects its own children gains nothing.
 * I2  At most `max` are counted, so a machine whose PID 1 never collects them does not run out of process ids.
 */
import type { Proven } from '../exec/process-table.ts'

export class EndedProcesses {
  readonly #startTimeOf: (pid: number) => number | undefined
  readonly #max: number
  /** Start times by pid, in the order in which they are looked at. */
  readonly #uncollected = new Map<number, Proven['startTime']>()

  /** `startTimeOf` knows zombies too. */
  constructor(startTimeOf: (pid: number) => number | undefined, max: number) {
    this.#startTimeOf = startTimeOf
    this.#max = max
  }

  get count(): number {
    return this.#uncollected.size
  }

  /** They are over, or were just killed (I1). */
  add(pids: Iterable<number>): void {
    for (const pid of pids) {
      if (this.#uncollected.size >= this.#max) this.collect(LOOKS_WHEN_FULL)
      if (this.#uncollected.size >= this.#max) return // I2
      const startTime = this.#startTimeOf(pid)
      if (startTime !== undefined) this.#uncollected.set(pid, startTime)
    }
  }

  clear(): void {
    this.#uncollected.clear()
  }

  /** Forgets those that have been collected. It looks at no more than `looks` of them, the longest unseen first. */
  collect(looks: number): void {
    for (const [pid, startTime] of [...this.#uncollected].slice(0, looks)) {
      this.#uncollected.delete(pid)
      if (this.#startTimeOf(pid) === startTime) this.#uncollected.set(pid, startTime)
    }
  }
}

const LOOKS_WHEN_FULL = 8
