/**
 * The pump's process (pump-main.mjs): how it is started, and the note on disk that says it exists.
 *
 * I1  A state folder has one pump: a new runner waits until the earlier runner's pump is gone.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isObject } from '@breakfall/faults/internal'
import { sendSignal } from '@breakfall/supervisor/platform'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { readJsonFile } from '../lib/disk.ts'
import { spawnCovered } from '../lib/spawn-covered.ts'
import { pollUntil } from '../lib/poll-until.ts'
import { isThere, prove, type Proven } from './process-table.ts'

export type PumpSetup = {
  readonly stateDir: string
  readonly machineBootId: string
  /** Descriptors that it must not inherit. */
  readonly inherited: readonly number[]
  readonly onProblem: (what: string, error: unknown) => void
}

/** The pump deletes the note when it exits on its own. */
export const pumpNote = (stateDir: string): string => join(stateDir, 'pump.json')

/** Throws if no process can be made. */
export function spawnPump({ stateDir, machineBootId, inherited, onProblem }: PumpSetup): ChildProcess {
  const child = spawnCovered(inherited, ['pipe', 'pipe', 'inherit'], (stdio) =>
    spawn(process.execPath, [...FLAGS, PROGRAM, pumpNote(stateDir)], {
      cwd: '/',
      env: {},
      detached: true, // its own session: a signal to the runner's group does not reach it
      stdio,
    }),
  )
  try {
    // I1: written before the pump gets anything to copy.
    const proven = child.pid === undefined ? undefined : prove(child.pid)
    if (proven !== undefined) writeFileSync(pumpNote(stateDir), JSON.stringify({ ...proven, machineBootId }))
  } catch (error) {
    onProblem('cannot note which process copies output', error)
  }
  return child
}

/** Waits for the earlier runner's pump, which exits with its runner. True if it was killed instead (I1). */
export async function wasPumpKilled({ stateDir, machineBootId }: PumpSetup): Promise<boolean> {
  const file = pumpNote(stateDir)
  const earlier = readNote(file)
  if (earlier === undefined) return false
  const { pumpEndMs } = RUNNER_DEFAULTS
  const isGone = await pollUntil(
    (waitedMs) => {
      if (earlier.machineBootId !== machineBootId || !isThere(earlier)) return true
      if (waitedMs > pumpEndMs) sendSignal(earlier.pid, 'SIGKILL')
      return undefined
    },
    { everyMs: POLL_MS, forMs: 2 * pumpEndMs },
  )
  if (isGone === undefined)
    throw new Error(`process ${earlier.pid}, which copied output for an earlier runner, does not exit`)
  const wasKilled = readNote(file) !== undefined
  rmSync(file, { recursive: true, force: true })
  return wasKilled
}

// ---- details ----

const PROGRAM = fileURLToPath(new URL('pump-main.mjs', import.meta.url))
const FLAGS = ['--max-old-space-size=32', '--max-semi-space-size=1'] // it buffers next to nothing
const POLL_MS = 5

type Note = Proven & { readonly machineBootId: string }

const UNREADABLE: Note = { pid: 0, startTime: 0, machineBootId: '' } // names no process, but there was a note

function readNote(file: string): Note | undefined {
  try {
    const note = readJsonFile(file)
    if (note === undefined) return undefined
    const { pid, startTime, machineBootId } = isObject(note) ? note : {}
    return typeof pid === 'number' && typeof startTime === 'number' && typeof machineBootId === 'string'
      ? { pid, startTime, machineBootId }
      : UNREADABLE
  } catch {
    return UNREADABLE // half written, or damaged
  }
}
