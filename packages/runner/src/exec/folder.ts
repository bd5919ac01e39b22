/** The folder of one exec: which files it has, and how they are made so that a full disk cannot lose the end later. */
import { closeSync, constants, mkdirSync, openSync, readFileSync, rmSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecExit } from '@breakfall/wire'
import { writeFully } from '../state/disk.ts'
import { INDEX_BYTES_FIRST } from './event-log.ts'

/** What is kept of a request, defaults filled in. `hash` tells the same body from another. */
export type ExecReservation = {
  readonly execId: string
  readonly command: readonly string[]
  readonly request: FilledRequest
  readonly hash: string
  readonly reservedAtMs: number
  readonly reservedMonotonicMs: number
  readonly machineBootId: string
}

export type FilledRequest = {
  readonly command?: readonly string[] | undefined
  readonly shell?: string | undefined
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin: 'none' | 'pipe'
  readonly timeoutMs: number
  readonly killGraceMs: number
  readonly merge: boolean
  readonly outputBytesMax: number
}

/** The end, in a file that was given its room at the start. */
export type ExecEnd = {
  readonly exit: ExecExit
  readonly startedAtMs: number | null
  readonly endedAtMs: number
  readonly lastSeq: number
}

export const EXEC_FILES = {
  reservation: 'request.json',
  status: 'status',
  end: 'exit',
  index: 'index',
  claim: 'started',
  stdin: 'in.fifo',
  stdout: 'out.fifo',
  stderr: 'err.fifo',
  launch: 'launch',
  args: 'sandbox',
} as const

/** Removed once it is over. */
const WORKING = [
  EXEC_FILES.status,
  EXEC_FILES.claim,
  EXEC_FILES.stdin,
  EXEC_FILES.stdout,
  EXEC_FILES.stderr,
  EXEC_FILES.launch,
  EXEC_FILES.args,
]

const END_BYTES = 8_192

/** All or nothing: a folder that could not be filled is removed again. */
export function makeExecFolder(folder: string, reservation: ExecReservation): void {
  mkdirSync(folder, { mode: 0o700 })
  try {
    fill(join(folder, EXEC_FILES.status), Buffer.alloc(4_096))
    fill(join(folder, EXEC_FILES.end), Buffer.alloc(END_BYTES, ' '))
    fill(join(folder, EXEC_FILES.index), Buffer.alloc(INDEX_BYTES_FIRST))
    fill(join(folder, EXEC_FILES.reservation), Buffer.from(JSON.stringify(reservation)))
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

export function readReservation(folder: string): ExecReservation {
  return JSON.parse(readFileSync(join(folder, EXEC_FILES.reservation), 'utf8')) as ExecReservation
}

/** Undefined while it is not over. */
export function readEnd(folder: string): ExecEnd | undefined {
  const text = readFileSync(join(folder, EXEC_FILES.end), 'utf8').trim()
  return text === '' ? undefined : (JSON.parse(text) as ExecEnd)
}

/** One write into room that is there already: no full disk, and no half record after a kill. */
export function writeEnd(folder: string, end: ExecEnd): void {
  const text = Buffer.from(JSON.stringify(end))
  const padded = text.length >= END_BYTES ? text : Buffer.concat([text, Buffer.alloc(END_BYTES - text.length, ' ')])
  const fd = openSync(join(folder, EXEC_FILES.end), 'r+')
  try {
    writeFully(fd, padded, 0)
  } finally {
    closeSync(fd)
  }
}

/** Makes sure that no keeper starts this exec any more. False where one has. */
export function claim(folder: string): boolean {
  try {
    closeSync(
      openSync(join(folder, EXEC_FILES.claim), constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600),
    )
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

export function removeWorkingFiles(folder: string): void {
  for (const name of WORKING) {
    try {
      unlinkSync(join(folder, name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error // not every exec has each of them
    }
  }
}

function fill(file: string, bytes: Buffer): void {
  const fd = openSync(file, 'wx', 0o600)
  try {
    writeFully(fd, bytes)
  } finally {
    closeSync(fd)
  }
}
