/**
 * A second net below the reaper, for the machine that kills it together with us: what we started is noted in a folder, and
 * the next start ends what is left of it.
 *
 * I1  A process is ended only if it carries the marker of the note, or has both the pid and the start time of the note in the
 *     same boot of the machine. A reused pid has neither.
 * I2  The notes of a supervisor that is still alive are left alone.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Leader, livingProcesses, hasMark, readProcess, signalEntry, SUPERVISOR_MARK } from './process-table.ts'
import { SUPERVISOR_ID } from './reaper.ts'

export type Swept = { readonly pid: number; readonly supervisorId: string }

/** Ends what dead supervisors left behind, by SIGKILL. Returns whom it ended. Does nothing where there is no /proc. */
export function sweepOrphans(stateDir: string): readonly Swept[] {
  const swept: Swept[] = []
  for (const file of notesIn(stateDir)) {
    const note = readNote(file)
    if (note === undefined || note.bootId !== bootId()) {
      rmSync(file, { force: true }) // unreadable, or from before the last boot: nobody of it can be alive
      continue
    }
    if (isAlive(note.owner)) continue // I2
    for (const entry of livingProcesses()) {
      const listed = note.children.some((child) => child.pid === entry.pid && child.startTime === entry.startTime)
      if (!listed && !hasMark(entry.pid, SUPERVISOR_MARK, note.supervisorId)) continue // I1
      if (signalEntry(entry, 'SIGKILL')) swept.push({ pid: entry.pid, supervisorId: note.supervisorId })
    }
    rmSync(file, { force: true })
  }
  return swept
}

/** Notes that this child runs. Best effort: a full disk must not keep it from running. */
export function noteStart(stateDir: string | undefined, leader: Leader): void {
  if (stateDir === undefined) return
  const leaders = running.get(stateDir) ?? new Map<number, Leader>()
  running.set(stateDir, leaders)
  leaders.set(leader.pid, leader)
  writeNote(stateDir, [...leaders.values()])
}

export function noteEnd(stateDir: string | undefined, leader: Leader): void {
  const leaders = stateDir === undefined ? undefined : running.get(stateDir)
  if (stateDir === undefined || leaders === undefined) return
  leaders.delete(leader.pid)
  writeNote(stateDir, [...leaders.values()])
}

// ---- details ----

const running = new Map<string, Map<number, Leader>>()

/** Replaces the earlier note of this process in one step. */
function writeNote(stateDir: string, leaders: readonly Leader[]): void {
  const file = path.join(stateDir, `${PREFIX}${SUPERVISOR_ID}.json`)
  const owner = { pid: process.pid, startTime: readProcess(process.pid)?.startTime ?? null }
  const children = leaders.map(({ pid, startTime }) => ({ pid, startTime: startTime ?? null }))
  const note: Note = { supervisorId: SUPERVISOR_ID, bootId: bootId(), owner, children }
  try {
    if (leaders.length === 0) {
      rmSync(file, { force: true })
      return
    }
    mkdirSync(stateDir, { recursive: true, mode: 0o700 })
    writeFileSync(`${file}.new`, JSON.stringify(note), { mode: 0o600 })
    renameSync(`${file}.new`, file)
  } catch {
    // The reaper is still there; the note is the second net only.
    removeLeftover(`${file}.new`)
  }
}

function removeLeftover(file: string): void {
  try {
    rmSync(file, { force: true })
  } catch {
    // The folder is none, or not ours: then nothing was left there.
  }
}

const PREFIX = 'supervised-'

type Identity = { readonly pid: number; readonly startTime: number | null }
type Note = {
  readonly supervisorId: string
  readonly bootId: string
  readonly owner: Identity
  readonly children: readonly Identity[]
}

function notesIn(stateDir: string): readonly string[] {
  try {
    return readdirSync(stateDir)
      .filter((name) => name.startsWith(PREFIX) && name.endsWith('.json'))
      .map((name) => path.join(stateDir, name))
  } catch {
    return [] // no folder, no notes
  }
}

function readNote(file: string): Note | undefined {
  try {
    const note = JSON.parse(readFileSync(file, 'utf8')) as Partial<Note> | null
    if (typeof note?.supervisorId !== 'string' || note.supervisorId.length < 16) return undefined
    if (!isIdentity(note.owner) || !Array.isArray(note.children)) return undefined
    return { ...(note as Note), children: note.children.filter(isIdentity) }
  } catch {
    return undefined // cut short by a crash or not ours; it is removed
  }
}

const isIdentity = (value: unknown): value is Identity =>
  typeof value === 'object' && value !== null && Number.isInteger((value as Partial<Identity>).pid)

/** Where its start time could not be noted, its pid has to do: it errs towards leaving things alone. */
function isAlive(owner: Identity): boolean {
  const now = readProcess(owner.pid)
  return now !== undefined && (owner.startTime == null || owner.startTime === now.startTime)
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return 'unknown' // no /proc: then nothing is swept anyway
  }
}
