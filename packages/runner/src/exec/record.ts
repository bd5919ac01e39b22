/** The record of an exec as callers see it. */
import type { Exec as ExecRecord } from '@breakfall/wire'
import { isoTime } from '../lib/clock.ts'
import type { ExecEnd, ExecReservation } from './exec-folder.ts'

export function execRecord(
  boxId: string,
  reservation: ExecReservation,
  now: {
    readonly state: ExecRecord['state']
    readonly startedAtMs: number | null
    readonly stdoutBytes: number
    readonly stderrBytes: number
    readonly lastSeq: number
    readonly end: ExecEnd | undefined
    readonly background?: ExecRecord['background']
  },
): ExecRecord {
  return {
    execId: reservation.execId,
    boxId,
    state: now.state,
    command: [...reservation.command],
    startedAt: now.startedAtMs === null ? null : isoTime(now.startedAtMs),
    endedAt: now.end === undefined ? null : isoTime(now.end.endedAtMs),
    stdoutBytes: now.stdoutBytes,
    stderrBytes: now.stderrBytes,
    lastSeq: now.end?.lastSeq ?? now.lastSeq,
    exit: now.end?.exit ?? null,
    ...(now.background === undefined ? {} : { background: now.background }),
  }
}
