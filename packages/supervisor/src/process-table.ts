/**
 * Who is alive, and whose child it is. On Linux from /proc; elsewhere only process groups are known.
 *
 * I1  Identity is never a pid alone. A process is ours if it carries our marker in its environment, or is the process that
 *     we started (same start time), or hangs below it, or is in its group or session while no other process has taken its pid.
 * I2  A process that does not let us look is not ours.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Environment variable that every child of one supervising process carries, and all that they start. */
export const SUPERVISOR_MARK = 'BREAKFALL_SUPERVISOR'
/** Environment variable of one run of one child. */
export const RUN_MARK = 'BREAKFALL_RUN'

export const HAS_PROC = process.platform === 'linux'

export type ProcessEntry = {
  readonly pid: number
  readonly ppid: number
  readonly group: number
  readonly session: number
  readonly state: string
  /** In clock ticks since boot; with the pid it names one process for ever. */
  readonly startTime: number
}

export type Leader = { readonly pid: number; readonly startTime: number | undefined; readonly runId: string }

export function readProcess(pid: number): ProcessEntry | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name stands in parentheses and may contain anything, parentheses and spaces too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const number = (index: number): number => Number(fields[index])
    return {
      pid,
      state: fields[0] ?? '',
      ppid: number(1),
      group: number(2),
      session: number(3),
      startTime: number(19),
    }
  } catch {
    return undefined // gone, or not Linux
  }
}

/** Everything alive that belongs to this run, the leader included. Empty where there is no /proc. */
export function familyOf(leader: Leader): readonly ProcessEntry[] {
  if (!HAS_PROC) return []
  const { startTime = NEVER } = leader // we could not look when it started: then only its marker tells
  const alive = livingProcesses().filter((entry) => entry.startTime >= startTime && entry.pid !== process.pid)
  const reused = alive.some((entry) => entry.pid === leader.pid && entry.startTime !== startTime)
  const family = new Set<number>()
  for (const entry of alive) {
    const near =
      !reused &&
      startTime !== NEVER &&
      (entry.pid === leader.pid || entry.group === leader.pid || entry.session === leader.pid)
    if (near || hasMark(entry.pid, RUN_MARK, leader.runId)) family.add(entry.pid) // I1
  }
  // Children without the marker (`env -i`) hang below one that is ours. Parents are older, so a few passes reach all.
  for (let grown = true; grown;) {
    grown = false
    for (const entry of alive) {
      if (family.has(entry.pid) || !family.has(entry.ppid)) continue
      family.add(entry.pid)
      grown = true
    }
  }
  return alive.filter((entry) => family.has(entry.pid))
}

export function hasMark(pid: number, name: string, value: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`).includes(`${name}=${value}\0`)
  } catch {
    return false // I2
  }
}

/** True if it is still the same process, and alive, and the signal went out. */
export function signalEntry(entry: Pick<ProcessEntry, 'pid' | 'startTime'>, signal: NodeJS.Signals): boolean {
  const now = readProcess(entry.pid)
  if (now?.startTime !== entry.startTime || isDead(now)) return false // I1
  return sendSignal(entry.pid, signal)
}

/** To the whole group of a leader that we started, unless its pid is another's by now. */
export function signalGroup(leader: Leader, signal: NodeJS.Signals): boolean {
  if (HAS_PROC && leader.startTime !== undefined) {
    const now = readProcess(leader.pid)
    if (now !== undefined && now.startTime !== leader.startTime) return false // I1
  }
  return sendSignal(-leader.pid, signal)
}

/** Every living process on the machine; the dead that nobody has collected are left out. */
export function livingProcesses(): readonly ProcessEntry[] {
  if (!HAS_PROC) return []
  const entries: ProcessEntry[] = []
  for (const name of namesIn('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    const entry = readProcess(pid)
    if (entry !== undefined && !isDead(entry)) entries.push(entry)
  }
  return entries
}

// ---- details ----

/** It has ended, and only its parent has not looked yet. */
const isDead = ({ state }: ProcessEntry): boolean => state === 'Z' || state === 'X'

const NEVER = -1 // older than all, and nobody's

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // no descriptor left to look with: what cannot be seen is not ours (I2)
  }
}

function sendSignal(target: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(target, signal)
    return true
  } catch {
    return false // ESRCH: it ended by itself in the meantime; EPERM: it is not ours
  }
}
