/**
 * Watches the guarded files of a host workspace while commands run in it. A mount over a file goes away when someone on the
 * host replaces that file, as `git config` does by a rename: from then on a running command could write it. The watch mounts
 * it again in each running sandbox, and the exec's record says `guard_lost` in any case.
 *
 * I1  The kernel's list of the sandbox's mounts decides whether a guard is lost, not the event that made us look.
 * I2  What happened is noted on disk with the exec, so the end reports it even if another runner writes the end.
 */
import { type FSWatcher, readFileSync, watch } from 'node:fs'
import { join, relative } from 'node:path'
import type { Diagnostic } from '@breakfall/faults'
import { EXEC_FILES } from '../exec/folder.ts'
import { guardLost } from '../exec/diagnostics.ts'
import { type MountedAt, readMounts } from '../isolation/mount-info.ts'
import { type Remount, remountIn, type RemountTools } from '../isolation/remount.ts'

export type GuardedExec = {
  readonly id: string
  readonly folder: string
  /** Init of its sandbox, once there is one. */
  readonly sandboxPid: number | undefined
  note(diagnostic: Diagnostic): void
}

export class GuardWatch {
  readonly #workspace: string
  readonly #tools: RemountTools
  /** Makes the files that git would make, so there is something to mount. */
  readonly #repair: () => void
  readonly #execs = new Map<string, GuardedExec>()
  readonly #watchers: FSWatcher[] = []
  #poll: NodeJS.Timeout | undefined
  #isChecking = false
  #isDirty = false

  constructor(workspace: string, tools: RemountTools, repair: () => void) {
    this.#workspace = workspace
    this.#tools = tools
    this.#repair = repair
  }

  add(exec: GuardedExec): void {
    this.#execs.set(exec.id, exec)
    if (this.#poll !== undefined) return
    this.#watch(this.#workspace, ['.git', 'breakfall.toml'])
    this.#watch(join(this.#workspace, '.git'), ['config', 'hooks'])
    this.#poll = setInterval(() => this.check(), POLL_MS)
    this.#poll.unref()
  }

  remove(execId: string): void {
    this.#execs.delete(execId)
    if (this.#execs.size === 0) this.close()
  }

  close(): void {
    clearInterval(this.#poll)
    this.#poll = undefined
    for (const watcher of this.#watchers.splice(0)) watcher.close()
  }

  /** One at a time; what happens during a check is seen by the next. */
  check(): void {
    this.#isDirty = true
    if (!this.#isChecking) void this.#checkAll()
  }

  // ---- details, in the order they are used above ----

  #watch(folder: string, names: readonly string[]): void {
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        if (name === null || names.includes(name)) this.check()
      })
      watcher.on('error', () => watcher.close()) // the poll sees the same, later
      this.#watchers.push(watcher)
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
    if (pid === undefined || mounts === undefined) return
    const guards = this.#guardsOf(exec)
    const lost = lostGuards(guards, mounts)
    if (lost.length === 0) return
    try {
      this.#repair()
    } catch {
      // The workspace itself is gone or moved: the record says that its guards are lost.
    }
    const problem = await remountIn(pid, mounts, withInner(lost, guards), this.#tools)
    const after = readMounts(pid)
    const isBack = after !== undefined && lostGuards(guards, after).length === 0
    if (after === undefined && problem !== undefined) return // it ended meanwhile, and its guards with it
    exec.note(
      guardLost(
        lost.map(({ path }) => relative(this.#workspace, path)),
        isBack ? undefined : (problem ?? 'they were replaced again'),
      ),
    )
  }

  /** As they were mounted. */
  #guardsOf({ folder }: GuardedExec): readonly Remount[] {
    try {
      return guardsIn(readFileSync(join(folder, EXEC_FILES.args), 'utf8'), this.#workspace)
    } catch {
      return [] // not written yet, or the exec is over
    }
  }
}

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

/** I1 */
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
