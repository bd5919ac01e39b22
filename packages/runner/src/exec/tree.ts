/**
 * The process tree of one exec: who belongs to it, how to signal it and how to end all of it.
 *
 * I1  A pid is signalled only while it is proven to be the process that was meant (start time), or by its group's keeper.
 * I2  Graceful signals go to the inner process group: signalling the sandbox itself would end it without any grace.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { IsolationLevel } from '@breakfall/wire'
import type { ExecGroup } from '../isolation/cgroup.ts'
import {
  commandOf,
  hasChildren,
  isThere,
  markedProcesses,
  type Proven,
  prove,
  sendSignal,
  startTimeOf,
} from './process-table.ts'

const SURVIVORS_MAX = 20
const KILL_STEP_MS = 5

export class ProcessTree {
  readonly #level: IsolationLevel
  #group: ExecGroup | undefined
  readonly #holdsTree: boolean
  readonly #mark: string
  #leader: Proven | undefined
  #keeper: { readonly pid: number; readonly startTime: number | undefined } | undefined
  holder: number | undefined

  constructor(level: IsolationLevel, holdsTree: boolean, mark: string) {
    this.#level = level
    this.#holdsTree = holdsTree
    this.#mark = mark
  }

  get keeper(): number | undefined {
    return this.#keeper?.pid
  }

  /** With its start time where it is not a child of ours, whose end we would be told. */
  setKeeper(pid: number, startTime?: number): void {
    this.#keeper = { pid, startTime }
  }

  /** The control group that both the keeper and the command are in. */
  setGroup(group: ExecGroup | undefined): void {
    this.#group = group
  }

  isKeeperThere(): boolean {
    return this.#keeper !== undefined && startTimeOf(this.#keeper.pid) === this.#keeper.startTime
  }

  /** One of an earlier runner. False where it is gone. */
  wakeKeeper(): boolean {
    if (this.#keeper === undefined || !this.isKeeperThere()) return false
    sendSignal(this.#keeper.pid, 'SIGCONT')
    return true
  }

  /** Leader of the inner group: the command itself, or the sandbox's init. */
  setLeader(pid: number): void {
    this.#leader ??= prove(pid)
  }

  /** True once the inner group is there with the command in it: a signal before that would hit the sandbox's own set-up. */
  isReady(): boolean {
    if (this.#leader === undefined) return false
    return this.#level === 'process' ? sendSignal(-this.#leader.pid, 0) : hasChildren(this.#leader.pid)
  }

  /** To the inner group (I2). False where nobody is left to get it. */
  signal(signal: NodeJS.Signals): boolean {
    if (this.#leader === undefined) return false
    // The group outlives its leader; its id is not given out again while a member lives.
    return sendSignal(-this.#leader.pid, signal)
  }

  /** SIGKILL to everything that belongs to it; to the keeper, who tells how it ended, only where that is said. */
  kill(withKeeper = false): void {
    if (this.#isLeaderThere()) sendSignal((this.#leader as { pid: number }).pid, 'SIGKILL') // I1; a sandbox dies with its init
    if (this.#level === 'process') this.signal('SIGKILL')
    this.#group?.kill(withKeeper ? [] : this.#own())
    for (const pid of this.#escaped()) sendSignal(pid, 'SIGKILL')
  }

  /** Kills until nothing of it lives, for so long at most. Whatever is left even so is returned. */
  async end(withinMs: number): Promise<readonly number[]> {
    let left = this.remaining()
    for (let waitedMs = 0; left.length > 0 && waitedMs < withinMs; waitedMs += KILL_STEP_MS) {
      this.kill(waitedMs > withinMs / 4) // what outruns this only a kill of the whole group stops
      await sleep(KILL_STEP_MS)
      left = this.remaining()
    }
    return left
  }

  /** What still lives of it. In a sandbox nothing outlives its init. */
  remaining(): readonly number[] {
    const found = new Set<number>(this.#group?.processes() ?? [])
    if (!this.#holdsTree && this.#isLeaderThere()) found.add((this.#leader as { pid: number }).pid)
    for (const pid of this.#escaped()) found.add(pid)
    for (const own of this.#own()) found.delete(own)
    return [...found]
  }

  /** Names what `remaining` found. */
  survivors(remaining: readonly number[]): readonly { readonly pid: number; readonly command: string }[] {
    return remaining.slice(0, SURVIVORS_MAX).map((pid) => ({ pid, command: commandOf(pid) }))
  }

  #own(): readonly number[] {
    return [this.keeper, this.holder].filter((pid) => pid !== undefined)
  }

  #isLeaderThere(): boolean {
    return this.#leader !== undefined && isThere(this.#leader)
  }

  /** Without control groups the mark in their environment is the only trace of processes that left their group. */
  #escaped(): readonly number[] {
    if (this.#level === 'bwrap' || this.#holdsTree) return []
    return markedProcesses(this.#mark, [...this.#own(), process.pid])
  }
}
