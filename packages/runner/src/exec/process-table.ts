/** Identifies processes. A pid alone is not enough: it needs the start time or the mark in its environment. */
import { hasVariable, isDead, processIds, readProcess } from '@breakfall/supervisor/platform'

/** The environment variable that marks a keeper and, at level process, what it started. */
export const KEEPER_MARK = 'BREAKFALL_KEEPER'

/** In clock ticks since the machine booted; undefined if there is no such process. Zombies count as gone. */
export function startTimeOf(pid: number): number | undefined {
  const entry = readProcess(pid)
  return entry === undefined || isDead(entry) ? undefined : entry.startTime
}

/** A process that is ending, or has ended and is not collected yet. */
export type Uncollected = {
  readonly startTime: number
  /** It has lost its parent. Only PID 1, or a subreaper in its place, can collect it. */
  readonly isAdopted: boolean
}

/** Undefined once it has been collected. */
export function readUncollected(pid: number): Uncollected | undefined {
  const entry = readProcess(pid)
  if (entry === undefined) return undefined
  return { startTime: entry.startTime, isAdopted: isDead(entry) && ANCESTORS.has(entry.ppid) }
}

/** A subreaper is an ancestor of everything that it adopts from us, and so one of ours. */
const ANCESTORS = ancestorsOf(process.pid)

function ancestorsOf(pid: number): ReadonlySet<number> {
  const found = new Set<number>([1])
  for (let parent = readProcess(pid)?.ppid; parent !== undefined && parent > 1 && !found.has(parent);) {
    found.add(parent)
    parent = readProcess(parent)?.ppid
  }
  return found
}

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
