/** Identifies processes. A pid alone is not enough: it needs the start time or the mark in its environment. */
import { hasVariable, isDead, processIds, readProcess } from '@breakfall/supervisor/platform'

/** The environment variable that marks a keeper and, at level process, what it started. */
export const KEEPER_MARK = 'BREAKFALL_KEEPER'

/** In clock ticks since the machine booted; undefined if there is no such process. Zombies count as gone. */
export function startTimeOf(pid: number): number | undefined {
  const entry = readProcess(pid)
  return entry === undefined || isDead(entry) ? undefined : entry.startTime
}

/** The same, for zombies too: undefined once the process has been collected. */
export const startTimeUntilCollected = (pid: number): number | undefined => readProcess(pid)?.startTime

/** A process, distinguishable from a later one with the same pid. */
export type Proven = { readonly pid: number; readonly startTime: number }

export function prove(pid: number): Proven | undefined {
  const startTime = startTimeOf(pid)
  return startTime === undefined ? undefined : { pid, startTime }
}

export const isThere = ({ pid, startTime }: Proven): boolean => startTimeOf(pid) === startTime

export const hasMark = (pid: number, mark: string): boolean =>
  hasVariable(pid, KEEPER_MARK, mark) && startTimeOf(pid) !== undefined

/** All processes with a mark, except those given: finds processes that left their group. */
export const markedProcesses = (mark: string, except: readonly number[]): readonly number[] =>
  processIds().filter((pid) => !except.includes(pid) && hasMark(pid, mark))
