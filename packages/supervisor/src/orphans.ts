/**
 * In case the reaper dies together with us: running children are recorded in a folder, and the next start ends what is left of them.
 *
 * I1  A process is ended only if it carries the marker of the record, or has both the pid and the start time of the record in
 *     the same boot of the machine. A reused pid has neither.
 * I2  The records of a supervisor that is alive are left alone.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { isObject } from '@breakfall/faults/internal'
import { replaceFile } from './files.ts'
import { bootId, hasVariable, readProcess } from './platform.ts'
import { type Leader, livingProcesses, signalEntry, SUPERVISOR_MARK } from './process-table.ts'
import { SUPERVISOR_ID } from './reaper.ts'

export type Swept = { readonly pid: number; readonly supervisorId: string }

/** Ends, with SIGKILL, what dead supervisors left behind, and returns what it ended. Does nothing without a process table. */
export function sweepOrphans(stateDir: string): readonly Swept[] {
  const swept: Swept[] = []
  for (const file of recordsIn(stateDir)) {
    const record = readRecord(file)
    if (record === undefined || record.bootId !== bootId()) {
      rmSync(file, { force: true }) // unreadable, or from before the last boot: none of its processes can be alive
      continue
    }
    if (isAlive(record.owner)) continue // I2
    for (const entry of livingProcesses()) {
      const listed = record.children.some((child) => child.pid === entry.pid && child.startTime === entry.startTime)
      if (!listed && !hasVariable(entry.pid, SUPERVISOR_MARK, record.supervisorId)) continue // I1
      if (signalEntry(entry, 'SIGKILL')) swept.push({ pid: entry.pid, supervisorId: record.supervisorId })
    }
    rmSync(file, { force: true })
  }
  return swept
}

/** Records that this child is running. Best effort: a full disk must not stop it from running. */
export function recordStart(stateDir: string | undefined, leader: Leader): void {
  if (stateDir === undefined) return
  const leaders = running.get(stateDir) ?? new Map<number, Leader>()
  running.set(stateDir, leaders)
  leaders.set(leader.pid, leader)
  writeRecord(stateDir, [...leaders.values()])
}

export function recordEnd(stateDir: string | undefined, leader: Leader): void {
  const leaders = stateDir === undefined ? undefined : running.get(stateDir)
  if (stateDir === undefined || leaders === undefined) return
  leaders.delete(leader.pid)
  writeRecord(stateDir, [...leaders.values()])
}

// ---- details ----

const running = new Map<string, Map<number, Leader>>()

/** Replaces the record of this process atomically. */
function writeRecord(stateDir: string, leaders: readonly Leader[]): void {
  const file = path.join(stateDir, `${PREFIX}${SUPERVISOR_ID}.json`)
  const owner = { pid: process.pid, startTime: readProcess(process.pid)?.startTime ?? null }
  const children = leaders.map(({ pid, startTime }) => ({ pid, startTime: startTime ?? null }))
  const record: OwnerRecord = { supervisorId: SUPERVISOR_ID, bootId: bootId(), owner, children }
  try {
    if (leaders.length === 0) {
      rmSync(file, { force: true })
      return
    }
    mkdirSync(stateDir, { recursive: true, mode: 0o700 })
    replaceFile(file, JSON.stringify(record))
  } catch {
    // The reaper is still there; this is only the second safety net.
  }
}

const PREFIX = 'supervised-'

type Identity = { readonly pid: number; readonly startTime: number | null }
type OwnerRecord = {
  readonly supervisorId: string
  readonly bootId: string
  readonly owner: Identity
  readonly children: readonly Identity[]
}

function recordsIn(stateDir: string): readonly string[] {
  try {
    return readdirSync(stateDir)
      .filter((name) => name.startsWith(PREFIX) && name.endsWith('.json'))
      .map((name) => path.join(stateDir, name))
  } catch {
    return [] // no folder, no records
  }
}

function readRecord(file: string): OwnerRecord | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, 'utf8'))
    if (!isObject(parsed)) return undefined
    const { supervisorId, bootId: boot, owner, children } = parsed
    if (typeof supervisorId !== 'string' || supervisorId.length < 16 || typeof boot !== 'string') return undefined
    if (!isIdentity(owner) || !Array.isArray(children)) return undefined
    return { supervisorId, bootId: boot, owner, children: children.filter(isIdentity) }
  } catch {
    return undefined // cut short by a crash, or not ours; the caller removes it
  }
}

const isIdentity = (value: unknown): value is Identity => isObject(value) && Number.isInteger(value['pid'])

/** Without a start time, any process with that pid counts as the owner: when in doubt, nothing is ended. */
function isAlive(owner: Identity): boolean {
  const now = readProcess(owner.pid)
  return now !== undefined && (owner.startTime == null || owner.startTime === now.startTime)
}
