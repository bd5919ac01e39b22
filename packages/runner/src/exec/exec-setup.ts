/** What a box gives to an exec. */
import type { Diagnostic } from '@breakfall/faults'
import type { IsolationLevel, SpawnFailure } from '@breakfall/wire'
import type { Clock } from '../lib/clock.ts'
import type { ExecGroup } from '../isolation/cgroup.ts'
import type { Job, Keeper, OnGone } from './keeper.ts'
import type { ExecEnd, ExecReservation } from './exec-folder.ts'
import type { Pump } from './pump.ts'
import type { SpawnQueue } from './spawn-queue.ts'

export type PreparedJob = Omit<Job, 'execId' | 'atMs'>

/** The keepers of its box. */
export type ExecKeepers = {
  /** Gives the job to one. Throws if no process can be made. */
  run(job: Job, onGone: OnGone, newKeeper: boolean): Keeper
  /** Takes it back; a clean one is used again. */
  giveBack(keeper: Keeper, isClean: boolean): void
  /** The control group of an earlier runner's keeper. */
  groupOf(keeperName: string): ExecGroup | undefined
  /** True if control groups find every process of an exec. */
  readonly holdsTrees: boolean
  /** These processes have ended, and may still count against the limit of the box. */
  ended(pids: Iterable<number>): void
}

/** How a new exec is started. */
export type ExecLaunch = {
  /** Writes the files of its job. Throws if that fails. */
  readonly prepare: () => PreparedJob
  /** Why the command cannot be run, if that can be seen now. */
  readonly whyNotRunnable: () => SpawnFailure | undefined
}

export type ExecSetup = {
  readonly boxId: string
  readonly folder: string
  readonly reservation: ExecReservation
  /** Undefined for an exec of an earlier runner: it is never spawned again. */
  readonly launch: ExecLaunch | undefined
  readonly level: IsolationLevel
  readonly mark: string
  readonly clock: Clock
  readonly queue: SpawnQueue
  readonly pump: Pump
  readonly keepers: ExecKeepers
  /** Nothing of it runs any more, and its end is about to be written: the last moment for a note. Returns what its box was refused. */
  readonly onQuiet: () => readonly Diagnostic[]
  readonly onEnd: (end: ExecEnd) => void
}
