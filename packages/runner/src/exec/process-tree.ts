/**
 * The process tree of one exec: which processes belong to it, how to signal them and how to end all of them.
 *
 * I1  A pid is signalled only while its start time proves that it is still the same process, or through its control group.
 * I2  Graceful signals go to the inner process group: signalling the sandbox itself would end it without any grace.
 */
import type { IsolationLevel } from '@breakfall/wire'
import { commandOf, hasChildren, sendSignal } from '@breakfall/supervisor/platform'
import type { ExecGroup } from '../isolation/cgroup.ts'
import { pollUntil } from '../lib/poll-until.ts'
import { isThere, markedProcesses, type Proven, prove } from './process-table.ts'

const SURVIVORS_MAX = 20
const COMMAND_CHARS_MAX = 200
const KILL_STEPS_MS = [1, 1, 2, 4, 5] // bwrap's own process is gone a moment before its init

export type TreeSetup = {
  readonly level: IsolationLevel
  /** True if control groups find every process of the exec. */
  readonly holdsTree: boolean
  /** In the environment of the command at level process. */
  readonly mark: string
  readonly keeperPid: number | undefined
  /** The control group that both the keeper and the command are in. */
  readonly group: ExecGroup | undefined
}

export class ProcessTree {
  readonly #setup: TreeSetup
  #leader: Proven | undefined
  /** Its leader and everything that `end` met. Their parent may be PID 1, which may collect them late. */
  readonly ended = new Set<number>()
  /** The process that holds the command's input open. */
  holder: number | undefined

  constructor(setup: TreeSetup) {
    this.#setup = setup
  }

  /** Leader of the inner group: the command itself, or the sandbox's init. */
  setLeader(pid: number): void {
    this.#leader ??= prove(pid)
    this.ended.add(pid)
  }

  /** True once the command is in the inner group: an earlier signal would hit the sandbox's own setup. */
  isReady(): boolean {
    if (this.#leader === undefined) return false
    return this.#setup.level === 'process' ? sendSignal(-this.#leader.pid, 0) : hasChildren(this.#leader.pid)
  }

  /** To the inner group (I2). False if no process is left to receive it. */
  signal(signal: NodeJS.Signals): boolean {
    if (this.#leader === undefined) return false
    // The group outlives its leader; the kernel does not reuse its id while a member lives.
    return sendSignal(-this.#leader.pid, signal)
  }

  /** SIGKILL to everything but the keeper, which reports how the command ended; with `withKeeper`, to the keeper too. */
  kill(withKeeper = false): void {
    const leader = this.#livingLeader()
    if (leader !== undefined) sendSignal(leader, 'SIGKILL') // I1; a sandbox dies with its init
    if (this.#setup.level === 'process') this.signal('SIGKILL')
    this.#setup.group?.kill(withKeeper ? [] : this.#own())
    for (const pid of this.#escaped()) sendSignal(pid, 'SIGKILL')
  }

  /** Kills until no process is left, at most this long. Returns the survivors. */
  async end(forMs: number): Promise<readonly number[]> {
    const isGone = await pollUntil(
      (waitedMs) => {
        const remaining = this.remaining()
        if (remaining.length === 0) return true
        for (const pid of remaining) this.ended.add(pid)
        this.kill(waitedMs > forMs / 4) // what outruns single signals only a kill of the whole group stops
        return undefined
      },
      { everyMs: KILL_STEPS_MS, forMs },
    )
    return isGone === true ? [] : this.remaining()
  }

  /** The processes that still live. In a sandbox nothing outlives its init. */
  remaining(): readonly number[] {
    const found = new Set<number>(this.#setup.group?.processes() ?? [])
    const leader = this.#setup.holdsTree ? undefined : this.#livingLeader()
    if (leader !== undefined) found.add(leader)
    for (const pid of this.#escaped()) found.add(pid)
    for (const own of this.#own()) found.delete(own)
    return [...found]
  }

  /** Names what `end` left over. */
  survivors(remaining: readonly number[]): readonly { readonly pid: number; readonly command: string }[] {
    return remaining
      .slice(0, SURVIVORS_MAX)
      .map((pid) => ({ pid, command: commandOf(pid).slice(0, COMMAND_CHARS_MAX) }))
  }

  #own(): readonly number[] {
    return [this.#setup.keeperPid, this.holder].filter((pid) => pid !== undefined)
  }

  #livingLeader(): number | undefined {
    return this.#leader !== undefined && isThere(this.#leader) ? this.#leader.pid : undefined
  }

  /** Without control groups, the mark in their environment is the only trace of processes that left their group. */
  #escaped(): readonly number[] {
    const { level, holdsTree, mark } = this.#setup
    if (level === 'bwrap' || holdsTree) return []
    return markedProcesses(mark, [...this.#own(), process.pid])
  }
}
