/** What an exec is given by its box. */
import type { IsolationLevel, SpawnFailure } from '@breakfall/wire'
import type { Clock } from '../clock.ts'
import type { ExecGroup } from '../isolation/cgroup.ts'
import type { Exec } from './exec.ts'
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
  /** Gives it to a keeper, to a new one where that is asked for, at this time of the monotonic clock. Throws where no process can be made. */
  readonly spawn: (atMs: number, onGone: OnGone, isNew: boolean) => Keeper
  /** Takes the keeper back, to be used again where nothing of this exec is left with it. */
  readonly giveBack: (keeper: Keeper, isClean: boolean) => void
  /** Why it cannot be run, where that can be seen now. */
  readonly lookAgain: () => SpawnFailure | undefined
  /** The control group of a keeper of an earlier runner. */
  readonly groupOf: (keeper: string) => ExecGroup | undefined
  readonly onEnd: (exec: Exec, end: ExecEnd) => void
}
