/**
 * Processes of a box that have ended but still count against its process limit. The kernel counts a process until its parent
 * collects it. The init of a sandbox ends a moment after bubblewrap, so its parent is then the machine's PID 1, which can take a
 * second, and in a container without an init it never happens. So the limit is raised by these: no command fails because earlier ones
 * ended a moment ago.
 *
 * I1  A process is counted only if this runner ended it or saw it end. A command that never collects its own children gains nothing.
 * I2  At most `max` are counted, so a machine whose PID 1 never collects them does not run out of process ids.
 * I3  PID 1 may collect them before the limit falls again, and a command that forks without end takes every place that is free then.
 *     So of those that may be collected soon, no more are counted than the box's own limit (or `SOON_MIN`): a box never has more
 *     living processes than twice its limit (or its limit and `SOON_MIN`), however often its commands are ended.
 */
import type { Uncollected } from '../exec/process-table.ts'

/** Shared by all boxes: whether PID 1 was ever seen to collect a process. */
export type Collecting = { hasCollected: boolean }

export class EndedProcesses {
  readonly #read: (pid: number) => Uncollected | undefined
  readonly #max: number
  readonly #machine: Collecting
  /** By pid, in the order in which they are looked at. */
  readonly #uncollected = new Map<number, Uncollected & { readonly looks: number }>()

  constructor(read: (pid: number) => Uncollected | undefined, max: number, machine: Collecting) {
    this.#read = read
    this.#max = max
    this.#machine = machine
  }

  get isEmpty(): boolean {
    return this.#uncollected.size === 0
  }

  /** I3: `limit` is that of the box. */
  count(limit: number): number {
    const looksMin = this.#machine.hasCollected ? LOOKS_OF_A_SLOW_MACHINE : 1
    let soon = 0
    for (const { looks } of this.#uncollected.values()) if (looks < looksMin) soon += 1
    return this.#uncollected.size - Math.max(0, soon - Math.max(limit, SOON_MIN))
  }

  /** They are over, or were just killed (I1). */
  add(pids: Iterable<number>): void {
    for (const pid of pids) {
      if (this.#uncollected.size >= this.#max) this.collect(LOOKS_WHEN_FULL)
      if (this.#uncollected.size >= this.#max) return // I2
      const now = this.#read(pid)
      if (now === undefined || this.#uncollected.get(pid)?.startTime === now.startTime) continue
      this.#uncollected.set(pid, { ...now, looks: 0 })
    }
  }

  clear(): void {
    this.#uncollected.clear()
  }

  /** Forgets those that have been collected. It looks at no more than `looksMax` of them, the longest unseen first. */
  collect(looksMax: number): void {
    for (const [pid, { startTime, isAdopted, looks }] of [...this.#uncollected].slice(0, looksMax)) {
      this.#uncollected.delete(pid)
      const now = this.#read(pid)
      if (now?.startTime === startTime) this.#uncollected.set(pid, { ...now, looks: looks + 1 })
      else if (isAdopted) this.#machine.hasCollected = true
    }
  }
}

const LOOKS_WHEN_FULL = 8
const LOOKS_OF_A_SLOW_MACHINE = 40 // ten seconds: what is still there then will stay
const SOON_MIN = 64 // short commands of a box with a small limit, in the time that PID 1 takes
