/**
 * Control groups, version 1 and 2, where this machine lets us: limits for a box, one group per exec to end all of it and
 * to learn of an OOM kill. Where a controller cannot be used it is absent here and the box says so.
 *
 * I1  Nothing is assumed from a version or a mount: a controller counts only after a group was made and took a limit.
 * I2  Names follow from box and exec, so a restarted runner finds the groups of the one before it.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export type Controller = 'memory' | 'pids' | 'cpu'
export type BoxLimits = { readonly memoryMb: number | null; readonly pids: number | null; readonly cpus: number | null }

export type ExecGroup = {
  /** Files into which the first process writes `0` to join. */
  readonly joins: readonly string[]
  processes(): readonly number[]
  /** SIGKILL to all of it, escapees included. */
  kill(): void
  /** Processes of this exec that the kernel killed for memory. */
  oomKills(): number
  remove(): void
}

export type CgroupRoot = { readonly version: 1 | 2; readonly folder: string }

export class Cgroups {
  readonly #roots: ReadonlyMap<Controller | 'tree', CgroupRoot>

  constructor(roots: ReadonlyMap<Controller | 'tree', CgroupRoot>) {
    this.#roots = roots
  }

  has(controller: Controller): boolean {
    return this.#roots.has(controller)
  }

  /** True where a whole exec can be found and ended, whatever it forked. */
  get holdsTrees(): boolean {
    return this.#roots.has('tree')
  }

  /** Makes the groups of a box; safe to call again. */
  openBox(box: string, limits: BoxLimits): void {
    for (const root of this.#folders()) {
      mkdirSync(join(root.folder, box), { recursive: true })
      if (root.version === 2)
        allowBelow(
          join(root.folder, box),
          [...this.#roots.keys()].filter(
            (key): key is Controller => key !== 'tree' && this.#roots.get(key)?.version === 2,
          ),
        )
    }
    for (const [controller, value] of Object.entries(LIMITS) as [Controller, LimitFiles][]) {
      const root = this.#roots.get(controller)
      if (root === undefined) continue
      for (const [file, text] of value(root.version, limits)) writeIfThere(join(root.folder, box, file), text)
    }
  }

  closeBox(box: string): void {
    for (const root of this.#folders()) {
      for (const name of subgroups(join(root.folder, box))) removeGroup(join(root.folder, box, name))
      removeGroup(join(root.folder, box))
    }
  }

  /** Removes the runner's own groups, where nothing is left in them. */
  closeAll(): void {
    for (const root of this.#folders()) {
      for (const box of subgroups(root.folder)) {
        for (const exec of subgroups(join(root.folder, box))) removeGroup(join(root.folder, box, exec))
        removeGroup(join(root.folder, box))
      }
      removeGroup(root.folder)
    }
  }

  execGroup(box: string, exec: string): ExecGroup {
    const per = this.#perExec().map((root) => join(root.folder, box, exec))
    for (const folder of per) mkdirSync(folder, { recursive: true })
    const boxOnly = this.#folders().filter((root) => !this.#perExec().includes(root))
    const tree = this.#roots.get('tree')
    const treeFolder = tree === undefined ? undefined : join(tree.folder, box, exec)
    const memory = this.#roots.get('memory')
    return {
      joins: [...per, ...boxOnly.map((root) => join(root.folder, box))].map((folder) => join(folder, 'cgroup.procs')),
      processes: () => (treeFolder === undefined ? [] : processesOf(treeFolder)),
      kill: () => treeFolder !== undefined && killGroup(treeFolder),
      oomKills: () => (memory === undefined ? 0 : oomKillsOf(join(memory.folder, box, exec))),
      remove: () => per.forEach(removeGroup),
    }
  }

  /** Each folder once: on version 2 all controllers share one. */
  #folders(): readonly CgroupRoot[] {
    return [...new Map([...this.#roots.values()].map((root) => [root.folder, root])).values()]
  }

  #perExec(): readonly CgroupRoot[] {
    const roots = [this.#roots.get('tree'), this.#roots.get('memory')].filter((root) => root !== undefined)
    return [...new Map(roots.map((root) => [root.folder, root])).values()]
  }
}

// ---- details, in the order they are used above ----

type LimitFiles = (version: 1 | 2, limits: BoxLimits) => readonly (readonly [string, string])[]

const MEGABYTE = 1024 * 1024
const CPU_PERIOD_US = 100_000

const LIMITS: Readonly<Record<Controller, LimitFiles>> = {
  memory: (version, { memoryMb }) => {
    const bytes = memoryMb === null ? (version === 1 ? '-1' : 'max') : String(memoryMb * MEGABYTE)
    return version === 1
      ? [
          ['memory.limit_in_bytes', bytes],
          ['memory.memsw.limit_in_bytes', bytes],
        ]
      : [
          ['memory.max', bytes],
          ['memory.swap.max', memoryMb === null ? 'max' : '0'],
        ]
  },
  pids: (_version, { pids }) => [['pids.max', pids === null ? 'max' : String(pids)]],
  cpu: (version, { cpus }) => {
    const quota = cpus === null ? undefined : cpus * CPU_PERIOD_US
    return version === 1
      ? [
          ['cpu.cfs_period_us', String(CPU_PERIOD_US)],
          ['cpu.cfs_quota_us', String(quota ?? -1)],
        ]
      : [['cpu.max', quota === undefined ? 'max' : `${quota} ${CPU_PERIOD_US}`]]
  },
}

export function allowBelow(folder: string, controllers: readonly Controller[]): void {
  if (controllers.length > 0)
    writeFileSync(join(folder, 'cgroup.subtree_control'), controllers.map((name) => `+${name}`).join(' '))
}

function writeIfThere(file: string, text: string): void {
  try {
    writeFileSync(file, text, { flag: 'r+' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error // swap accounting is often not built in
  }
}

export function processesOf(folder: string): readonly number[] {
  try {
    return readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
  } catch {
    return [] // the group is gone, and with it everything in it
  }
}

function killGroup(folder: string): void {
  try {
    writeFileSync(join(folder, 'cgroup.kill'), '1', { flag: 'r+' })
  } catch {
    // Version 1 and kernels before 5.14 have no such file: one by one then, until none is left to fork.
    for (let round = 0; round < 10; round += 1) {
      const pids = processesOf(folder)
      if (pids.length === 0) return
      for (const pid of pids) killQuietly(pid)
    }
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended by itself meanwhile.
  }
}

function oomKillsOf(folder: string): number {
  for (const file of ['memory.events', 'memory.oom_control']) {
    try {
      const found = /^oom_kill (\d+)/m.exec(readFileSync(join(folder, file), 'utf8'))
      if (found !== null) return Number(found[1])
    } catch {
      // The file of the other version.
    }
  }
  return 0
}

function removeGroup(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // Still in use, or never there: the sweep at the next start of the box takes it, and an empty group costs nothing.
  }
}

function subgroups(folder: string): readonly string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
  } catch {
    return [] // never made
  }
}
