/** Processes as /proc shows them. A pid alone identifies no process: it needs the start time or the mark in its environment. */
import { readdirSync, readFileSync } from 'node:fs'
import { errorCode } from '../state/json.ts'

/** The environment variable that marks a keeper and, at level process, what it started. */
export const KEEPER_MARK = 'BREAKFALL_KEEPER'

/** In clock ticks since the machine booted; undefined if there is no such process. Zombies count as gone. */
export function startTimeOf(pid: number): number | undefined {
  const stat = read(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : Number(fields[19])
}

/** A process, distinguishable from a later one with the same pid. */
export type Proven = { readonly pid: number; readonly startTime: number }

export function prove(pid: number): Proven | undefined {
  const startTime = startTimeOf(pid)
  return startTime === undefined ? undefined : { pid, startTime }
}

export const isThere = ({ pid, startTime }: Proven): boolean => startTimeOf(pid) === startTime

/** What the same user can change about a process from outside and its children would inherit. The kernel reveals all but ionice. */
export function settingsOf(pid: number): string {
  const stat = read(`/proc/${pid}/stat`) ?? ''
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const cpus = /^Cpus_allowed:.*$/m.exec(read(`/proc/${pid}/status`) ?? '')?.[0]
  const [nice, policy] = [fields[16], fields[38]]
  const others = ['oom_score_adj', 'limits', 'coredump_filter', 'timerslack_ns'].map((name) =>
    read(`/proc/${pid}/${name}`),
  )
  return [nice, policy, cpus, ...others].join('\n')
}

export function commandOf(pid: number): string {
  const line = read(`/proc/${pid}/cmdline`)
  return (line ?? '').replaceAll('\0', ' ').trim().slice(0, 200)
}

/** True too if the kernel does not say. */
export function hasChildren(pid: number): boolean {
  return read(`/proc/${pid}/task/${pid}/children`) !== ''
}

export function hasMark(pid: number, mark: string): boolean {
  return (
    startTimeOf(pid) !== undefined &&
    (read(`/proc/${pid}/environ`) ?? '').split('\0').includes(`${KEEPER_MARK}=${mark}`)
  )
}

/** All processes with a mark, except those given: finds processes that left their group. */
export function markedProcesses(mark: string, except: readonly number[]): readonly number[] {
  const pids = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
  const seen = (pid: number): boolean => read(`/proc/${pid}/environ`)?.includes(mark) === true // a quick check that rules out nearly all
  return pids.filter((pid) => !except.includes(pid) && seen(pid) && hasMark(pid, mark))
}

/** False if no process receives it. */
export function sendSignal(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal)
    return true
  } catch (error) {
    if (errorCode(error) === 'EPERM') return signal === 0 // it exists, but we may not signal it
    return false
  }
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return undefined // gone, or not readable for us
  }
}
