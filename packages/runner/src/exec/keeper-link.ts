/** An exec's view of its keeper: a child of this process, the child of an earlier runner, or nothing any more. */
import { sendSignal } from '@breakfall/supervisor/platform'
import type { ExecGroup } from '../isolation/cgroup.ts'
import type { Keeper } from './keeper.ts'
import type { ExecKeepers } from './exec-setup.ts'
import { isThere, prove } from './process-table.ts'

export type KeeperLink = {
  readonly pid: number | undefined
  /** The control group that both the keeper and the command are in. */
  readonly group: ExecGroup | undefined
  /** Continues a keeper that someone stopped. False if it is gone and no event will report that. */
  wake(): boolean
  /** Ends the keeper and its input holder at once. What it started has its own process groups. */
  kill(): void
  /** This process ends; the keeper and what it runs stay. */
  leave(): void
  /** Its exec is over. A clean keeper may run the next one. */
  dismiss(isClean: boolean): void
}

/** A child of this process, which reports its end by an event. */
export function ownKeeper(keeper: Keeper, keepers: ExecKeepers): KeeperLink {
  return {
    pid: keeper.pid,
    group: keeper.group,
    wake: () => {
      keeper.wake()
      return true
    },
    kill: () => keeper.kill(),
    leave: () => keeper.leave(),
    dismiss: (isClean) => keepers.giveBack(keeper, isClean),
  }
}

/** The child of an earlier runner. `pid` is undefined if it is gone. Never used for a second exec. */
export function inheritedKeeper(pid: number | undefined, group: ExecGroup | undefined): KeeperLink {
  const proven = pid === undefined ? undefined : prove(pid)
  const signal = (target: number, name: NodeJS.Signals): boolean =>
    proven !== undefined && isThere(proven) && sendSignal(target, name)
  const kill = (): void => void signal(-(pid ?? 0), 'SIGKILL')
  return {
    pid,
    group,
    wake: () => signal(pid ?? 0, 'SIGCONT'),
    kill,
    leave: () => undefined, // it waits for the next runner already
    dismiss: () => {
      kill()
      group?.kill([])
      group?.remove()
    },
  }
}
