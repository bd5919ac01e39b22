/**
 * Reads the kernel's OOM-kill counters of the control groups that the child and this process are in.
 *
 * I1  Only kills since the last sample are evidence: a neighbour that ran out of memory days ago explains nothing.
 * I2  The child's own group counts. The child may move to it after its start (`systemd-run --scope`).
 */
import { readFileSync } from 'node:fs'
import { controlGroupsOf, MACHINE_COUNTERS } from './platform.ts'

export class OomKillCounter {
  #counted: ReadonlyMap<string, number> = new Map()

  /** Records the counters. Call it from time to time while the child lives. */
  sample(pid: number | undefined): void {
    const files = new Set([...filesOf('self'), ...(pid === undefined ? [] : filesOf(pid))]) // I2
    const counted = countsOf(files)
    // Without control groups, the counter of the whole machine has to do.
    this.#counted = counted.size > 0 ? counted : countsOf([MACHINE_COUNTERS])
  }

  /** Kills since the last sample (I1). 0 if the system has no counters. */
  kills(): number {
    let sum = 0
    for (const [file, before] of this.#counted) sum += Math.max(0, (countIn(file) ?? before) - before)
    return sum
  }
}

// ---- details ----

function filesOf(process: number | 'self'): readonly string[] {
  return controlGroupsOf(process)
    .split('\n')
    .flatMap((line) => {
      const [, controllers, group] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
      if (controllers === undefined || group === undefined) return []
      // In a container the path of the group is not mounted; its files are at the root.
      if (controllers === '') return [`/sys/fs/cgroup${group}/memory.events`, '/sys/fs/cgroup/memory.events']
      if (!controllers.split(',').includes('memory')) return []
      return [`/sys/fs/cgroup/memory${group}/memory.oom_control`, '/sys/fs/cgroup/memory/memory.oom_control']
    })
}

function countsOf(files: Iterable<string>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const file of files) {
    const count = countIn(file)
    if (count !== undefined) counts.set(file, count)
  }
  return counts
}

function countIn(file: string): number | undefined {
  const count = /^oom_kill (\d+)$/m.exec(textOf(file) ?? '')?.[1]
  return count === undefined ? undefined : Number(count)
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return undefined // not Linux, or the process is gone
  }
}
