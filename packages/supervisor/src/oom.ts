/**
 * Whether the kernel has killed for want of memory, by the counters of the control groups that a child and we ourselves are in.
 *
 * I1  Only what was counted since the last look is evidence: a neighbour that ran out of memory days ago explains nothing now.
 * I2  The child's own group counts, and it may have moved there itself after its start (`systemd-run --scope`).
 */
import { readFileSync } from 'node:fs'

export class OomWatch {
  #counted: ReadonlyMap<string, number> = new Map()

  /** Notes the counters as they are. Call it now and then while the child lives. */
  look(pid: number | undefined): void {
    const files = new Set([...filesOf('self'), ...(pid === undefined ? [] : filesOf(`${pid}`))]) // I2
    const counted = countsOf(files)
    // Where no group counts, the whole machine does.
    this.#counted = counted.size > 0 ? counted : countsOf(['/proc/vmstat'])
  }

  /** Kills since the last look (I1). 0 where nobody counts. */
  kills(): number {
    let sum = 0
    for (const [file, before] of this.#counted) sum += Math.max(0, (countIn(file) ?? before) - before)
    return sum
  }
}

// ---- details ----

function filesOf(process: string): readonly string[] {
  return (textOf(`/proc/${process}/cgroup`) ?? '').split('\n').flatMap((line) => {
    const [, controllers, group] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (controllers === undefined || group === undefined) return []
    // In a container the group's own path is not mounted; its files are then at the root.
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
    return undefined // not this kind of system, or the process has gone
  }
}
