/** The folder of one exec: its files, allocated at the start so a full disk cannot lose the end later. */
import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { errorCode, isObject, parseObject } from '@breakfall/faults/internal'
import { type ExecExit, execExitSchema, execRequestSchema } from '@breakfall/wire'
import { writeFully } from '../lib/disk.ts'
import { INDEX_BYTES_FIRST, startRecord } from './event-log.ts'
import { type FilledRequest, fillRequest } from './request.ts'

/** A stored request, with its defaults. `hash` identifies the body. */
export type ExecReservation = {
  readonly execId: string
  readonly command: readonly string[]
  readonly request: FilledRequest
  readonly hash: string
  readonly reservedAtMs: number
  readonly reservedMonotonicMs: number
  readonly machineBootId: string
  /** A further run of a background process that failed. */
  readonly origin?: { readonly first: string; readonly restarts: number } | undefined
}

/** The end, in a file whose space was allocated at the start. */
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
  reason: 'ended',
  stdin: 'in.fifo',
  stdout: 'out.fifo',
  stderr: 'err.fifo',
  launch: 'launch',
  args: 'sandbox',
  notes: 'notes',
} as const

/** Removed once it is over. The command goes first and the claim last: a late keeper must see one of those changes. */
const WORKING = [
  EXEC_FILES.launch,
  EXEC_FILES.args,
  EXEC_FILES.status,
  EXEC_FILES.stdin,
  EXEC_FILES.stdout,
  EXEC_FILES.stderr,
  'door', // this one and the next: of an earlier version
  'job.fifo',
  EXEC_FILES.claim,
]

const END_BYTES = 8_192

/** All or nothing: an incomplete folder is removed again. With `end`, the exec is over from the start. */
export function makeExecFolder(folder: string, reservation: ExecReservation, end?: ExecEnd): void {
  mkdirSync(folder, { mode: 0o700 })
  try {
    fill(join(folder, EXEC_FILES.status), Buffer.alloc(4_096))
    fill(join(folder, EXEC_FILES.end), endBytes(end))
    fill(join(folder, EXEC_FILES.index), Buffer.alloc(INDEX_BYTES_FIRST))
    fill(join(folder, EXEC_FILES.reservation), Buffer.from(JSON.stringify(reservation)))
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

/** Throws if it is damaged. */
export function readReservation(folder: string): ExecReservation {
  const found = parseObject(readFileSync(join(folder, EXEC_FILES.reservation), 'utf8'))
  const { execId, command, hash, reservedAtMs, reservedMonotonicMs, machineBootId } = found
  const request = execRequestSchema.safeParse(found['request'])
  if (
    execId !== basename(folder) ||
    !isTextList(command) ||
    typeof hash !== 'string' ||
    typeof reservedAtMs !== 'number' ||
    typeof reservedMonotonicMs !== 'number' ||
    typeof machineBootId !== 'string' ||
    !request.success
  )
    throw new Error('the request of the exec is damaged')
  return {
    execId,
    command,
    request: fillRequest(request.data),
    hash,
    reservedAtMs,
    reservedMonotonicMs,
    machineBootId,
    ...originIn(found['origin']),
  }
}

function originIn(value: unknown): Pick<ExecReservation, 'origin'> {
  if (!isObject(value)) return {}
  const { first, restarts } = value
  return typeof first === 'string' && typeof restarts === 'number' ? { origin: { first, restarts } } : {}
}

export function writeReservation(folder: string, reservation: ExecReservation): void {
  const file = join(folder, EXEC_FILES.reservation)
  rmSync(file, { recursive: true, force: true })
  fill(file, Buffer.from(JSON.stringify(reservation)))
}

/** Undefined while the exec is not over. Throws if it is damaged. */
export function readEnd(folder: string): ExecEnd | undefined {
  const text = endText(folder)
  if (text === '') return undefined
  const { exit, startedAtMs, endedAtMs, lastSeq } = parseObject(text)
  if (
    !isExit(exit) ||
    typeof lastSeq !== 'number' ||
    !Number.isInteger(lastSeq) ||
    typeof endedAtMs !== 'number' ||
    (typeof startedAtMs !== 'number' && startedAtMs !== null)
  )
    throw new Error('the end of the exec is damaged')
  return { exit, startedAtMs, endedAtMs, lastSeq }
}

/** The stored text, damaged or not; empty if nothing reached the disk. */
export function endText(folder: string): string {
  const file = join(folder, EXEC_FILES.end)
  return existsSync(file) ? readFileSync(file, 'utf8').replaceAll('\0', ' ').trim() : ''
}

/** One write into allocated space: it cannot fail on a full disk, nor leave half a record after a kill. */
export function writeEnd(folder: string, end: ExecEnd): void {
  const fd = openSync(join(folder, EXEC_FILES.end), 'r+')
  try {
    writeFully(fd, endBytes(end), 0)
  } finally {
    closeSync(fd)
  }
}

/** Replaces a file that may be damaged; without an end it is empty again. */
export function replaceEnd(folder: string, end: ExecEnd | undefined): void {
  const file = join(folder, EXEC_FILES.end)
  rmSync(file, { recursive: true, force: true })
  fill(file, endBytes(end))
}

/** Makes the index if it is missing. With `startedAtMs` it replaces a useless one and writes the start event. */
export function makeIndex(folder: string, startedAtMs?: number): void {
  const file = join(folder, EXEC_FILES.index)
  if (startedAtMs === undefined && lstatSync(file, { throwIfNoEntry: false })?.isFile() === true) return
  rmSync(file, { recursive: true, force: true })
  const bytes = Buffer.alloc(INDEX_BYTES_FIRST)
  if (startedAtMs !== undefined) startRecord(0, startedAtMs).copy(bytes)
  fill(file, bytes)
}

/** Makes sure that no keeper starts this exec any more. False if one already has. */
export function claim(folder: string): boolean {
  try {
    closeSync(
      openSync(join(folder, EXEC_FILES.claim), constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600),
    )
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  }
}

/** From now on no keeper can run it, even if it has claimed it. */
export function withdraw(folder: string): void {
  rmSync(join(folder, EXEC_FILES.launch), { force: true })
}

/** Stores why it is being ended, for a restarted runner that has to finish that. */
export function noteReason(folder: string, reason: string): void {
  try {
    writeFileSync(join(folder, EXEC_FILES.reason), reason)
  } catch {
    // The disk is full: only a restart within the next seconds would miss the reason.
  }
}

export function removeWorkingFiles(folder: string): void {
  for (const name of WORKING) {
    try {
      unlinkSync(join(folder, name))
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error // not every exec has all of them
    }
  }
}

/** Keeps the object itself: a parsed copy has another order of fields, and so another text, than what was written. */
const isExit = (value: unknown): value is ExecExit => execExitSchema.safeParse(value).success

const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string')

function endBytes(end: ExecEnd | undefined): Buffer {
  const text = Buffer.from(end === undefined ? '' : JSON.stringify(end))
  return text.length >= END_BYTES ? text : Buffer.concat([text, Buffer.alloc(END_BYTES - text.length, ' ')])
}

function fill(file: string, bytes: Buffer): void {
  const fd = openSync(file, 'wx', 0o600)
  try {
    writeFully(fd, bytes)
  } finally {
    closeSync(fd)
  }
}
