/**
 * Which processes are alive and which belong to a child. Without a process table only process groups are known.
 *
 * I1  A pid alone never identifies a process. A process is ours if its environment has our marker, if it is the process we
 *     started (same start time) or a descendant of it, or if it is in its group or session and the pid was not reused.
 * I2  A process that we may not inspect is not ours.
 */
import {
  HAS_PROCESS_TABLE,
  hasVariable,
  isDead,
  type ProcessEntry,
  processIds,
  readProcess,
  sendSignal,
} from './platform.ts'

/** Environment variable of every child of this process and of all their descendants. */
export const SUPERVISOR_MARK = 'BREAKFALL_SUPERVISOR'
/** Environment variable of one run of one child. */
export const RUN_MARK = 'BREAKFALL_RUN'

export type Leader = { readonly pid: number; readonly startTime: number | undefined; readonly runId: string }

/** All living processes of this run, including the leader. Empty without a process table. */
export function familyOf(leader: Leader): readonly ProcessEntry[] {
  if (!HAS_PROCESS_TABLE) return []
  const { startTime = UNKNOWN } = leader // unknown start time: only the marker identifies the family
  const alive = livingProcesses().filter((entry) => entry.startTime >= startTime && entry.pid !== process.pid)
  const reused = alive.some((entry) => entry.pid === leader.pid && entry.startTime !== startTime)
  const family = new Set<number>()
  for (const entry of alive) {
    const near =
      !reused &&
      startTime !== UNKNOWN &&
      (entry.pid === leader.pid || entry.group === leader.pid || entry.session === leader.pid)
    if (near || hasVariable(entry.pid, RUN_MARK, leader.runId)) family.add(entry.pid) // I1
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

/** True if it is still the same living process and the signal was sent. */
export function signalEntry(entry: Pick<ProcessEntry, 'pid' | 'startTime'>, signal: NodeJS.Signals): boolean {
  const now = readProcess(entry.pid)
  if (now?.startTime !== entry.startTime || isDead(now)) return false // I1
  return sendSignal(entry.pid, signal)
}

/** Signals the whole group of a leader that we started, unless its pid was reused. */
export function signalGroup(leader: Leader, signal: NodeJS.Signals): boolean {
  if (HAS_PROCESS_TABLE && leader.startTime !== undefined) {
    const now = readProcess(leader.pid)
    if (now !== undefined && now.startTime !== leader.startTime) return false // I1
  }
  return sendSignal(-leader.pid, signal)
}

/** Every living process on the machine, without zombies. */
export function livingProcesses(): readonly ProcessEntry[] {
  return idsIfReadable().flatMap((pid) => {
    const entry = readProcess(pid)
    return entry === undefined || isDead(entry) ? [] : [entry]
  })
}

// ---- details ----

const UNKNOWN = -1 // earlier than the start of any process

function idsIfReadable(): readonly number[] {
  try {
    return processIds()
  } catch {
    return [] // no free descriptor to read with; see I2
  }
}
