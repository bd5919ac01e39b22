/**
 * Watches the guarded files of a host workspace while commands run in it. A mount over a file goes away when someone on the
 * host replaces that file, as `git config` does by a rename: from then on a running command could write it. The watch mounts
 * it again in each running sandbox, and the exec's record says `guard_lost` in any case. What a command plants where nothing can
 * be mounted is set aside when it appears, and once more when the command has ended; the record says `set_aside`.
 *
 * I1  The kernel's list of the sandbox's mounts decides whether a guard is lost, not the event that made us look.
 * I2  A folder in which a command planted a `commondir` is read-only for it from then on: it could plant another at once.
 * I3  What happened is noted on disk with the exec, so the end reports it even if another runner writes the end.
 */
import { type FSWatcher, readFileSync, watch } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import type { Diagnostic } from '@breakfall/faults'
import { EXEC_FILES } from '../exec/exec-folder.ts'
import { guardLost, mayRun, setAside } from '../exec/diagnostics.ts'
import { openFolder, type OpenFolder, type Owner } from '../files/walk.ts'
import { type MountedAt, readMounts } from '../isolation/mount-info.ts'
import { type Remount, remountIn, type RemountTools } from '../isolation/remount.ts'
import { type Guard, guardWorkspace } from './guards.ts'
import { type NestedIn, setPlantedAside, type Way } from './planted-git-files.ts'
import { changedSince, stampsOf, type ToolStamps } from './tool-files.ts'

export type GuardedExec = {
  readonly id: string
  readonly folder: string
  readonly setup: { readonly launch: object | undefined }
  /** Init of its sandbox, once there is one. */
  readonly sandboxPid: number | undefined
  note(diagnostic: Diagnostic): void
}

export type WatchPlan = {
  readonly workspace: string
  readonly tools: RemountTools
  /** Opens the workspace; throws if it is gone or another folder. */
  readonly open: () => OpenFolder
  readonly owner: Owner | undefined
  readonly nested: NestedIn
}

export class GuardWatch {
  readonly #plan: WatchPlan
  readonly #execs = new Map<string, GuardedExec>()
  readonly #watchers = new Map<string, FSWatcher>()
  #before: Pick<Guard, 'repositories' | 'elsewhere'> | undefined
  #setAside: readonly string[] = []
  #tools: ToolStamps = new Map()
  #poll: NodeJS.Timeout | undefined
  /** A command may change a huge index without end. */
  #notBeforeMs = 0
  #isChecking = false
  #isDirty = false

  constructor(plan: WatchPlan) {
    this.#plan = plan
  }

  add(exec: GuardedExec): void {
    const isFirst = this.#execs.size === 0
    this.#execs.set(exec.id, exec)
    if (isFirst) {
      this.#before = this.#guard()
      this.#tools = this.#toolFiles() ?? new Map<string, string>()
      this.#setAside = []
    }
    if (exec.setup.launch === undefined) this.#before = this.#guardedSince(exec)
    if (this.#poll !== undefined) return
    const { workspace } = this.#plan
    const elsewhere = this.#elsewhereNames()
    this.#watch(workspace, ['.git', 'breakfall.toml', 'HEAD', ...(elsewhere.get(workspace) ?? [])])
    this.#watch(join(workspace, '.git'), [...NAMES_IN_GIT, 'index', 'worktrees'])
    this.#watchNested()
    for (const [folder, names] of [...elsewhere].slice(0, NESTED_WATCHED_MAX)) this.#watch(folder, names)
    this.#poll = setInterval(() => this.check(), POLL_MS)
    this.#poll.unref()
  }

  /** The processes of a command are gone: what they planted is set aside before anyone hears of the end. */
  ended(execId: string): void {
    this.#checkPlanted()
    const now = this.#toolFiles()
    if (now === undefined) return
    const changed = changedSince(this.#tools, now)
    this.#tools = now
    if (changed.length > 0) this.#execs.get(execId)?.note(mayRun(changed))
  }

  remove(execId: string): void {
    this.#execs.delete(execId)
    if (this.#execs.size === 0) this.close()
  }

  close(): void {
    clearInterval(this.#poll)
    this.#poll = undefined
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
  }

  /** One at a time; what happens during a check is seen by the next. */
  check(): void {
    const startedAtMs = performance.now()
    if (startedAtMs >= this.#notBeforeMs) this.#checkPlanted()
    this.#notBeforeMs = Math.max(this.#notBeforeMs, performance.now() + CHECK_SHARE * (performance.now() - startedAtMs))
    this.#isDirty = true
    if (!this.#isChecking) void this.#checkAll()
  }

  // ---- details, in the order they are used above ----

  /** Also creates what git would, so there is something to mount. Undefined if the workspace is gone or moved. */
  #guard(): Guard | undefined {
    const { workspace, open, owner, nested } = this.#plan
    try {
      return guardWorkspace(open(), workspace, owner, nested)
    } catch {
      return undefined
    }
  }

  /** The names on the way to what git reads elsewhere, by their folder. */
  #elsewhereNames(): ReadonlyMap<string, readonly string[]> {
    const names = new Map<string, string[]>()
    for (const [name, { steps, end = [] }] of this.#before?.elsewhere ?? [])
      for (const each of [name, ...steps.map((step) => step.name), end.join('/')]) {
        const path = join(this.#plan.workspace, each)
        names.set(dirname(path), [...(names.get(dirname(path)) ?? []), basename(path)])
      }
    return names
  }

  #toolFiles(): ToolStamps | undefined {
    try {
      using folder = this.#plan.open()
      return stampsOf(folder)
    } catch {
      return undefined // the workspace is gone or moved
    }
  }

  /** Of what is there now, only that counts which has been guarded since this command of an earlier runner started. */
  #guardedSince(exec: GuardedExec): Pick<Guard, 'repositories' | 'elsewhere'> {
    const mounts = exec.sandboxPid === undefined ? undefined : readMounts(exec.sandboxPid)
    const guards = this.#guardsOf(exec).filter((guard) => mounts === undefined || !lostGuards([guard], mounts).length)
    const isGuarded = (name: string): boolean => {
      const path = join(this.#plan.workspace, name)
      return guards.some((guard) => guard.path === path || (guard.mode === 'ro' && path.startsWith(`${guard.path}/`)))
    }
    const { repositories = new Map<string, string>(), elsewhere = new Map<string, Way>() } = this.#before ?? {}
    const unknown: Way = { steps: [], end: undefined, isThere: false }
    return {
      repositories: new Map([...repositories].filter(([name]) => isGuarded(name))),
      elsewhere: new Map(
        Array.from(elsewhere, ([name, way]) => [
          name,
          way.end === undefined || !way.isThere || isGuarded(way.end.join('/')) ? way : unknown,
        ]),
      ),
    }
  }

  #checkPlanted(): void {
    if (this.#before === undefined) return
    const { workspace: path, open, owner, nested } = this.#plan
    const { repositories, elsewhere } = this.#before
    let found: readonly string[]
    try {
      using folder = open()
      const isKnown = (name: string, numbers: string): boolean => repositories.get(name) === numbers
      found = setPlantedAside(folder, { path, isKnown, elsewhere, owner, nested })
    } catch {
      return // the workspace is gone, or a command moves it about: the next check sees it
    }
    this.#watchNested()
    if (found.length === 0) return
    this.#setAside = [...new Set([...this.#setAside, ...found])]
    for (const exec of this.#execs.values()) exec.note(setAside(this.#setAside))
    for (const name of found) if (basename(name) === 'commondir') void this.#freeze(join(path, dirname(name)))
  }

  /** I2: a second `commondir` is not possible. */
  async #freeze(folder: string): Promise<void> {
    await Promise.all(
      [...this.#execs.values()].map(async ({ sandboxPid: pid }) => {
        const mounts = pid === undefined ? undefined : readMounts(pid)
        if (pid !== undefined && mounts !== undefined && isBuilt(mounts) && mounts.get(folder)?.includes('ro') !== true)
          await remountIn(pid, mounts, [{ path: folder, mode: 'ro' }], this.#plan.tools)
      }),
    )
    this.#checkPlanted()
  }

  /** Repositories that the index lists: `git status` runs in each of them. */
  #watchNested(): void {
    if (this.#execs.size === 0) return
    const { workspace, open, nested } = this.#plan
    try {
      using git = openFolder(open(), ['.git'])
      for (const path of (nested('.git', git) ?? []).slice(0, NESTED_WATCHED_MAX))
        if (!path.split('/').includes('..')) this.#watch(join(workspace, path, '.git'), NAMES_IN_GIT)
    } catch {
      // There is no repository, or it is a file: the poll sees the same, later.
    }
  }

  #watch(folder: string, names: readonly string[]): void {
    if (this.#watchers.has(folder)) return
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || names.includes(name)) this.check()
      })
      watcher.on('error', () => watcher.close()) // the poll sees the same, later
      this.#watchers.set(folder, watcher)
    } catch {
      // There is no such folder, or no inotify watch is left: the poll sees the same, later.
    }
  }

  async #checkAll(): Promise<void> {
    this.#isChecking = true
    while (this.#isDirty) {
      this.#isDirty = false
      await Promise.all([...this.#execs.values()].map((exec) => this.#checkOne(exec)))
    }
    this.#isChecking = false
  }

  async #checkOne(exec: GuardedExec): Promise<void> {
    const pid = exec.sandboxPid
    const mounts = pid === undefined ? undefined : readMounts(pid)
    if (pid === undefined || mounts === undefined || !isBuilt(mounts)) return
    const guards = this.#guardsOf(exec)
    const lost = lostGuards(guards, mounts)
    if (lost.length === 0) return
    this.#guard()
    const problem = await remountIn(pid, mounts, withInner(lost, guards), this.#plan.tools)
    const after = readMounts(pid)
    const isBack = after !== undefined && lostGuards(guards, after).length === 0
    if (after === undefined && problem !== undefined) return // it ended meanwhile, and its guards with it
    exec.note(
      guardLost(
        lost.map(({ path }) => relative(this.#plan.workspace, path)),
        isBack ? undefined : (problem ?? 'they were replaced again'),
      ),
    )
  }

  /** As they were mounted. */
  #guardsOf({ folder }: GuardedExec): readonly Remount[] {
    try {
      return guardsIn(readFileSync(join(folder, EXEC_FILES.args), 'utf8'), this.#plan.workspace)
    } catch {
      return [] // not written yet, or the exec is over
    }
  }
}

const NESTED_WATCHED_MAX = 50
const NAMES_IN_GIT = ['config', 'config.worktree', 'commondir', 'hooks']
const CHECK_SHARE = 4 // of the runner's time, checks take a fifth at most
const POLL_MS = 500 // safety net under inotify, which some file systems do not have

/** The guards among bubblewrap's options: mounts of a path inside the workspace onto itself. */
export function guardsIn(args: string, workspace: string): readonly Remount[] {
  const words = args.split('\0')
  return words.flatMap((word, i) => {
    const [from, at] = [words[i + 1], words[i + 2]]
    const isGuard = (word === '--bind' || word === '--ro-bind') && from === at && from?.startsWith(`${workspace}/`)
    return isGuard === true && at !== undefined ? [{ path: at, mode: word === '--bind' ? 'rw' : 'ro' }] : []
  })
}

/**
 * The last that bubblewrap does is to make these read-only. A mount of ours before that would cover guards that it has made, and
 * the command could start in between.
 */
export function isBuilt(mounts: MountedAt): boolean {
  return ['/', '/proc'].every((path) => mounts.get(path)?.includes('ro') === true)
}

/** I1: the kernel decides. */
export function lostGuards(guards: readonly Remount[], mounts: MountedAt): readonly Remount[] {
  return guards.filter(({ path, mode }) => {
    const options = mounts.get(path)
    return options === undefined || (mode === 'ro' && !options.includes('ro'))
  })
}

/** A new mount covers what was mounted below it, and that is mounted again too. */
function withInner(lost: readonly Remount[], guards: readonly Remount[]): readonly Remount[] {
  return guards.filter((guard) => lost.some(({ path }) => guard.path === path || guard.path.startsWith(`${path}/`)))
}
