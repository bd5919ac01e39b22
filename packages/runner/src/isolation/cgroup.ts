/**
 * Control groups, version 1 and 2: limits for a box, and one group per keeper to end a whole exec and to detect OOM kills. A
 * controller that cannot be used is missing here, and the box's record says so.
 *
 * I1  Nothing is assumed from a version or a mount: a controller counts only after a group was made and accepted a limit.
 * I2  Names are derived from box and keeper, so a restarted runner finds the groups of its predecessor. A keeper's name is
 *     never reused, a box's is.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '@breakfall/faults/internal'
import { sendSignal } from '@breakfall/supervisor/platform'
import { pollUntil } from '../lib/poll-until.ts'

export const CONTROLLERS = ['memory', 'pids', 'cpu'] as const
export type Controller = (typeof CONTROLLERS)[number]
export type BoxLimits = { readonly memoryMb: number | null; readonly pids: number | null; readonly cpus: number | null }

export type ExecGroup = {
  /** A process joins by writing `0` into these files. */
  readonly joins: readonly string[]
  processes(): readonly number[]
  /** SIGKILL to every process in it, except those in `spare`. */
  kill(spare: readonly number[]): void
  /** How many of its processes the kernel's OOM killer has killed. */
  oomKills(): number
  /** Removes it once it is empty. */
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

  /** True if all processes of an exec can be found and ended, no matter how they forked. */
  get holdsTrees(): boolean {
    return this.#roots.has('tree')
  }

  /** Makes the groups of a box. Idempotent. */
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
    for (const controller of CONTROLLERS) {
      const root = this.#roots.get(controller)
      if (root === undefined) continue
      for (const [file, text] of LIMITS[controller](root.version, limits))
        writeIfThere(join(root.folder, box, file), text)
    }
  }

  /** How many processes a box may have, including ours. */
  limitPids(box: string, pids: number): void {
    const root = this.#roots.get('pids')
    if (root !== undefined) writeIfThere(join(root.folder, box, 'pids.max'), String(pids))
  }

  /** Removes the groups of a box in which nothing runs any more; a killed process may take a moment to disappear. */
  async closeBox(box: string): Promise<void> {
    await pollUntil(() => {
      const remaining = this.#folders().filter(({ folder }) => !removeWithin(join(folder, box)))
      return remaining.length === 0 ? true : undefined
    }, REMOVAL)
  }

  /** Removes the runner's groups that are empty. */
  closeAll(): void {
    for (const { folder } of this.#folders()) {
      for (const box of subgroups(folder)) removeWithin(join(folder, box))
      removeGroup(folder)
    }
  }

  /**
   * Ends and removes every group of an earlier runner that is not in use. Everything here was started by a runner on this
   * state folder, so a group without an exec belongs to no one.
   */
  sweep(isUsed: (box: string, keeper?: string) => boolean): void {
    for (const { folder } of this.#folders()) {
      for (const box of subgroups(folder)) {
        for (const keeper of subgroups(join(folder, box))) {
          if (isUsed(box, keeper)) continue
          killGroup(join(folder, box, keeper), [])
          removeSoon(join(folder, box, keeper))
        }
        if (!isUsed(box)) removeGroup(join(folder, box))
      }
    }
  }

  /** Undefined if we cannot use control groups. */
  execGroup(box: string, keeper: string): ExecGroup | undefined {
    if (this.#roots.size === 0) return undefined
    const per = this.#perExec().map((root) => join(root.folder, box, keeper))
    for (const folder of per) mkdirSync(folder, { recursive: true })
    const boxOnly = this.#folders().filter((root) => !this.#perExec().includes(root))
    const tree = this.#roots.get('tree')
    const treeFolder = tree === undefined ? undefined : join(tree.folder, box, keeper)
    const memory = this.#roots.get('memory')
    return {
      joins: [...per, ...boxOnly.map((root) => join(root.folder, box))].map((folder) => join(folder, 'cgroup.procs')),
      processes: () => (treeFolder === undefined ? [] : processesOf(treeFolder)),
      kill: (spare) => treeFolder !== undefined && killGroup(treeFolder, spare),
      oomKills: () => (memory === undefined ? 0 : oomKillsOf(join(memory.folder, box, keeper), memory.version)),
      remove: () => per.forEach((folder) => removeSoon(folder)),
    }
  }

  /** Each folder once: in version 2 all controllers share one. */
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
    if (errorCode(error) !== 'ENOENT') throw error // kernels often lack swap accounting
  }
}

export function processesOf(folder: string): readonly number[] {
  try {
    return readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
  } catch {
    return [] // the group is gone, and with it everything in it
  }
}

function killGroup(folder: string, spare: readonly number[]): void {
  if (spare.length === 0 && killAtOnce(folder)) return
  // One by one, until none is left that could fork.
  for (let round = 0; round < 10; round += 1) {
    const pids = processesOf(folder).filter((pid) => !spare.includes(pid))
    if (pids.length === 0) return
    for (const pid of pids) sendSignal(pid, 'SIGKILL')
  }
}

/** False if the kernel cannot: version 1, or before Linux 5.14. */
function killAtOnce(folder: string): boolean {
  try {
    writeFileSync(join(folder, 'cgroup.kill'), '1', { flag: 'r+' })
    return true
  } catch {
    return false // no such file, or the group is gone
  }
}

function oomKillsOf(folder: string, version: 1 | 2): number {
  try {
    const text = readFileSync(join(folder, version === 1 ? 'memory.oom_control' : 'memory.events'), 'utf8')
    return Number(/^oom_kill (\d+)/m.exec(text)?.[1] ?? 0)
  } catch {
    return 0 // the group is gone, or the kernel is too old to count
  }
}

const REMOVAL = { everyMs: 5, forMs: 500 }

/** False if it is still in use. */
function removeGroup(folder: string): boolean {
  try {
    rmdirSync(folder)
    return true
  } catch (error) {
    return errorCode(error) === 'ENOENT' // a leftover group costs nothing; the next start removes it
  }
}

/** A group and its subgroups. */
function removeWithin(folder: string): boolean {
  for (const name of subgroups(folder)) removeGroup(join(folder, name))
  return removeGroup(folder)
}

/** For names that are never reused (I2). */
function removeSoon(folder: string): void {
  void pollUntil(() => (removeGroup(folder) ? true : undefined), { ...REMOVAL, ref: false })
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
