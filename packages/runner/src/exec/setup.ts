/** What a box gives to an exec. */
import type { Diagnostic } from '@breakfall/faults'
import type { IsolationLevel, SpawnFailure } from '@breakfall/wire'
import type { Clock } from '../clock.ts'
import type { ExecGroup } from '../isolation/cgroup.ts'
import type { Keeper, OnGone } from './keeper.ts'
import type { ExecEnd, ExecReservation } from './folder.ts'
import type { Pump } from './pump.ts'
import type { SpawnQueue } from './spawn-queue.ts'

export type ExecSetup = {
  readonly boxId: string
  readonly folder: string
  readonly reservation: ExecReservation
  /** False for an exec of an earlier runner. */
  readonly isNew: boolean
  readonly level: IsolationLevel
  readonly holdsTree: boolean
  readonly mark: string
  readonly clock: Clock
  readonly queue: SpawnQueue
  readonly pump: Pump
  /** Gives the job to a keeper at this time of the monotonic clock. Throws if no process can be made. */
  readonly spawn: (atMs: number, onGone: OnGone, newKeeper: boolean) => Keeper
  /** Its process tree has ended. These may still count against the limit of its box. */
  readonly onTreeEnd: (pids: Iterable<number>) => void
  /** Takes the keeper back; a clean one is used again. */
  readonly giveBack: (keeper: Keeper, isClean: boolean) => void
  /** Why the command cannot be run, if that can be seen now. */
  readonly whyNotRunnable: () => SpawnFailure | undefined
  /** The control group of an earlier runner's keeper. */
  readonly groupOf: (keeper: string) => ExecGroup | undefined
  /** What its box was refused while it ran. */
  readonly denied: () => readonly Diagnostic[]
  /** Nothing of it runs any more, and its end is about to be written: the last moment for a note. */
  readonly onQuiet: () => void
  readonly onEnd: (end: ExecEnd) => void
}
