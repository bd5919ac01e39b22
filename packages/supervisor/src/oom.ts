/** How many processes the kernel has killed for want of memory, as far as this system tells. Only differences mean anything. */
import { readFileSync } from 'node:fs'

/** The counters of our own control group where it has some, else those of the whole machine. 0 where nobody counts. */
export function oomKills(): number {
  const own = cgroupFiles()
    .map(counterIn)
    .filter((count) => count !== undefined)
  return own.length > 0 ? own.reduce((sum, count) => sum + count, 0) : (counterIn('/proc/vmstat') ?? 0)
}

// ---- details ----

function cgroupFiles(): readonly string[] {
  return (textOf('/proc/self/cgroup') ?? '').split('\n').flatMap((line) => {
    const [, controllers, group] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (controllers === undefined || group === undefined) return []
    // In a container the group's own path is not mounted; its files are then at the root.
    if (controllers === '') return [`/sys/fs/cgroup${group}/memory.events`, '/sys/fs/cgroup/memory.events']
    if (!controllers.split(',').includes('memory')) return []
    return [`/sys/fs/cgroup/memory${group}/memory.oom_control`, '/sys/fs/cgroup/memory/memory.oom_control']
  })
}

function counterIn(file: string): number | undefined {
  const count = /^oom_kill (\d+)$/m.exec(textOf(file) ?? '')?.[1]
  return count === undefined ? undefined : Number(count)
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return undefined // not this kind of system
  }
}
