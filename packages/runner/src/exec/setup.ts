/** What an exec is given by its box. */
import type { ChildProcess } from 'node:child_process'
import type { IsolationLevel } from '@breakfall/wire'
import type { Clock } from '../clock.ts'
import type { ExecGroup } from '../isolation/cgroup.ts'
import type { Exec } from './exec.ts'
import type { ExecEnd, ExecReservation } from './folder.ts'
import type { SpawnQueue } from './spawn-queue.ts'

export type ExecSetup = {
  readonly boxId: string
  readonly folder: string
  readonly reservation: ExecReservation
  readonly level: IsolationLevel
  readonly group: ExecGroup | undefined
  readonly holdsTree: boolean
  readonly mark: string
  readonly clock: Clock
  readonly queue: SpawnQueue
  /** Starts the keeper. Throws where no process can be made. */
  readonly spawn: () => ChildProcess
  readonly onEnd: (exec: Exec, end: ExecEnd) => void
}
