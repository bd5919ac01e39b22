/** Burned exec ids: their commands never ran and never will. They look like execs that were killed before they started. */
import type { Exec as ExecRecord } from '@breakfall/wire'
import { type ExecEnd, type ExecReservation, makeExecFolder, removeWorkingFiles } from '../exec/exec-folder.ts'
import { execRecord } from '../exec/record.ts'
import type { RunnerHost } from '../host/host.ts'
import type { BoxExecs } from './execs.ts'
import { lostEnd, unknownRequest } from './repair.ts'

export function burnedRecord(host: RunnerHost, boxId: string, execId: string): ExecRecord {
  const now = { state: 'exited', startedAtMs: null, stdoutBytes: 0, stderrBytes: 0, lastSeq: 1 } as const
  return execRecord(boxId, reservationOf(host, execId, ''), { ...now, end: burnedEnd(host) })
}

/** Keeps its record in the box, for callers that start it, read it or follow it. */
export function keepBurned(host: RunnerHost, execs: BoxExecs, execId: string): void {
  const folder = execs.folderOf(execId)
  const reservation = reservationOf(host, execId, folder)
  const end = burnedEnd(host)
  makeExecFolder(folder, reservation, end)
  removeWorkingFiles(folder)
  execs.addFinished(execId, end, reservation.hash, false)
}

// ---- details ----

const reservationOf = (host: RunnerHost, execId: string, folder: string): ExecReservation =>
  unknownRequest(host, execId, folder, undefined)

function burnedEnd(host: RunnerHost): ExecEnd {
  const lost = lostEnd(host.clock.now())
  return { ...lost, exit: { ...lost.exit, cause: 'killed', started: false } }
}
