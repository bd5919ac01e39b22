/**
 * Which processes are alive and which belong to a child. On Linux from /proc; elsewhere only process groups are known.
 *
 * I1  A pid alone never identifies a process. A process is ours if its environment has our marker, if it is the process we
 *     started (same start time) or a descendant of it, or if it is in its group or session and the pid was not reused.
 * I2  A process that we may not inspect is not ours.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Environment variable of every child of this process and of all their descendants. */
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
  /** In clock ticks since boot. Together with the pid it identifies one process. */
  readonly startTime: number
}

export type Leader = { readonly pid: number; readonly startTime: number | undefined; readonly runId: string }

export function readProcess(pid: number): ProcessEntry | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The name is in parentheses and may contain anything, even parentheses and spaces.
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

/** All living processes of this run, including the leader. Empty without /proc. */
export function familyOf(leader: Leader): readonly ProcessEntry[] {
  if (!HAS_PROC) return []
  const { startTime = UNKNOWN } = leader // unknown start time: only the marker identifies the family
  const alive = livingProcesses().filter((entry) => entry.startTime >= startTime && entry.pid !== process.pid)
  const reused = alive.some((entry) => entry.pid === leader.pid && entry.startTime !== startTime)
  const family = new Set<number>()
  for (const entry of alive) {
    const near =
      !reused &&
      startTime !== UNKNOWN &&
      (entry.pid === leader.pid || entry.group === leader.pid || entry.session === leader.pid)
    if (near || hasMark(entry.pid, RUN_MARK, leader.runId)) family.add(entry.pid) // I1
  }
  // Children without the marker (`env -i`) are found through their parents. A few passes reach all of them.
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

/** True if it is still the same living process and the signal was sent. */
export function signalEntry(entry: Pick<ProcessEntry, 'pid' | 'startTime'>, signal: NodeJS.Signals): boolean {
  const now = readProcess(entry.pid)
  if (now?.startTime !== entry.startTime || isDead(now)) return false // I1
  return sendSignal(entry.pid, signal)
}

/** Signals the whole group of a leader that we started, unless its pid was reused. */
export function signalGroup(leader: Leader, signal: NodeJS.Signals): boolean {
  if (HAS_PROC && leader.startTime !== undefined) {
    const now = readProcess(leader.pid)
    if (now !== undefined && now.startTime !== leader.startTime) return false // I1
  }
  return sendSignal(-leader.pid, signal)
}

/** Every living process on the machine, without zombies. */
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

/** A zombie: it has exited, but its parent has not collected it. */
const isDead = ({ state }: ProcessEntry): boolean => state === 'Z' || state === 'X'

const UNKNOWN = -1 // earlier than the start of any process

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // no free descriptor to read with; see I2
  }
}

function sendSignal(target: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(target, signal)
    return true
  } catch {
    return false // ESRCH: it exited in the meantime; EPERM: it is not ours
  }
}
