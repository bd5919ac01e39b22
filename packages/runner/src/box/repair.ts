/**
 * Repairs execs whose files were damaged by a power cut, which may keep one file and lose another, or by the disk. What can
 * be read stays unchanged, and a broken exec affects neither its box nor other execs.
 *
 * I1  An id that may have run is never used again, and never reported as not started.
 * I2  Only a folder without any trace of a start was still being made.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecExit } from '@breakfall/wire'
import { EventLog, spoolBytes, STREAMS, hasEvents } from '../exec/event-log.ts'
import {
  EXEC_FILES,
  endText,
  type ExecEnd,
  type ExecReservation,
  makeExecFolder,
  makeIndex,
  removeWorkingFiles,
  replaceEnd,
  readEnd,
  readReservation,
  writeReservation,
} from '../exec/exec-folder.ts'
import type { ReservedId } from '../exec/reservations.ts'
import type { RunnerHost } from '../host/host.ts'
import type { BoxExecs } from './execs.ts'
import { fillRequest } from '../exec/request.ts'

export type ExecOnDisk = { readonly reservation: ExecReservation; readonly end: ExecEnd | undefined }

/** Throws if one of its files is damaged. */
export function readExec(folder: string): ExecOnDisk {
  const [reservation, end] = [readReservation(folder), readEnd(folder)]
  if (end === undefined && !isOpen(folder) && hasTraces(folder)) throw new Error('its end is missing')
  if (end !== undefined && !hasEvents(folder, end.lastSeq - 1))
    throw new Error('its index has fewer events than its end says')
  return { reservation, end }
}

/** Makes it readable again. False if it was still being made, and nothing ran. */
export function repairExec(
  host: RunnerHost,
  execId: string,
  folder: string,
  reserved: ReservedId | undefined,
): boolean {
  const reservation = unlessDamaged(() => readReservation(folder))
  if (reservation === undefined && !hasTraces(folder)) return false // I2
  if (reservation === undefined) writeReservation(folder, unknownRequest(host, execId, folder, reserved))
  const end = unlessDamaged(() => readEnd(folder) ?? 'none')
  if (end === 'none' && isOpen(folder)) {
    makeIndex(folder) // its keeper's status file, or the keeper's death, decides how it ended
    return true
  }
  const known = end === undefined || end === 'none' ? lostEnd(host.clock.now()) : end
  if (!hasEvents(folder, 1)) makeIndex(folder, known.startedAtMs ?? undefined)
  replaceEnd(folder, repairLog(folder, known))
  return true
}

/** The outcome is unknown. `started` is null: it may have run. */
export function lostEnd(nowMs: number): ExecEnd {
  const exit: ExecExit = {
    cause: 'runner_lost',
    started: null,
    code: null,
    signal: null,
    signalGuess: null,
    durationMs: 0,
    survivors: [],
    stdoutBytes: 0,
    stderrBytes: 0,
    truncated: false,
    diagnostics: [],
  }
  return { exit, startedAtMs: null, endedAtMs: nowMs, lastSeq: 1 }
}

/** Keeps a record of an id that was used, and of which nothing else is left: it may have run, and will not run again. */
export function keepLost(host: RunnerHost, execs: BoxExecs, reserved: ReservedId): void {
  const { execId, hash } = reserved
  const folder = execs.folderOf(execId)
  const end = lostEnd(host.clock.now())
  makeExecFolder(folder, unknownRequest(host, execId, folder, reserved), end)
  removeWorkingFiles(folder)
  execs.addFinished(execId, end, hash, false)
}

/** A placeholder for a request that cannot be read. Its hash, if known, still identifies the body. */
export function unknownRequest(
  host: RunnerHost,
  execId: string,
  folder: string,
  reserved: ReservedId | undefined,
): ExecReservation {
  const has = (name: string): boolean => existsSync(join(folder, name))
  return {
    execId,
    command: [],
    request: fillRequest({
      command: ['unknown'],
      merge: has(EXEC_FILES.stdout) && !has(EXEC_FILES.stderr),
      stdin: has(EXEC_FILES.stdin) ? 'pipe' : 'none',
    }),
    hash: reserved?.hash ?? '',
    reservedAtMs: host.clock.now(),
    reservedMonotonicMs: 0,
    machineBootId: reserved?.machineBootId ?? host.clock.machineBootId,
  }
}

// ---- details, in the order they are used above ----

function unlessDamaged<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined // the damage has been reported already
  }
}

function hasTraces(folder: string): boolean {
  const names = [EXEC_FILES.claim, ...STREAMS].map((name) => join(folder, name))
  return names.some((name) => existsSync(name)) || hasEvents(folder, 1) || endText(folder) !== ''
}

/** Its pipes exist: no end has been written yet. */
const isOpen = (folder: string): boolean => existsSync(join(folder, EXEC_FILES.stdout))

/** Keeps what can be read of the log; bytes that the end counts and the log lacks become a gap. */
function repairLog(folder: string, end: ExecEnd): ExecEnd {
  const log = new EventLog(folder)
  try {
    for (const stream of STREAMS) log.grow(stream, spoolBytes(folder, stream))
    log.flush()
    for (const stream of STREAMS) log.addGap(stream, end.exit[`${stream}Bytes`])
    const { count } = log
    const [stdoutBytes, stderrBytes] = [log.bytes('stdout'), log.bytes('stderr')]
    const started = end.exit.started ?? (stdoutBytes + stderrBytes > 0 ? true : null)
    return { ...end, exit: { ...end.exit, started, stdoutBytes, stderrBytes }, lastSeq: count + 1 }
  } finally {
    log.close()
  }
}
