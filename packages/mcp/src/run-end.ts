/**
 * Why a run of a local server ended, as a sentence and as a category. Pure.
 *
 * I1  One run has one reason, whatever order its exit, the end of its stdout and a failed write arrive in.
 * I2  Only a server that sent something wrong has broken the protocol. A server that exits or stays silent has failed.
 */
import { Fault } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import { describeExit, type ExitReport } from '@breakfall/supervisor'
import { explainingLine } from '@breakfall/supervisor/internal'

export type EndReport = Omit<ExitReport, 'restart'>

export type RunEnd = {
  readonly report: EndReport
  /** How it broke the protocol, if it did. */
  readonly breach: string | undefined
}

export function endFault(name: string, end: RunEnd | undefined, startMs: number, cause?: Fault): Fault {
  const isBreach = end?.report.endedBy === 'unhealthy' && end.breach !== undefined // I2
  return new Fault(isBreach ? 'mcp_protocol_error' : 'mcp_server_failed', {
    facts: { name, detail: end === undefined ? 'it has not started' : endReason(end, startMs) },
    diagnostics: cause?.report.diagnostics ?? [],
    ...(cause === undefined ? {} : { cause, errorRaw: cause.errorRaw }),
  })
}

export function endReason({ report, breach }: RunEnd, startMs: number): string {
  const { endedBy, endedDetail, diagnoses } = report
  if (endedBy === 'unhealthy') return breach ?? endedDetail ?? 'it could not be used'
  if (endedBy === 'start_limit') return `it did not answer within ${duration(startMs)}`
  const [cause] = diagnoses
  if (cause?.rank === 'cause') return cause.message
  if (endedBy !== null) return endedDetail ?? ENDED[endedBy]
  return `it ${describeExit(report)}${lastLine(report)}`
}

// ---- details ----

const ENDED: Readonly<Record<Exclude<NonNullable<EndReport['endedBy']>, 'unhealthy' | 'start_limit'>, string>> = {
  stop: 'it was stopped',
  restart: 'it was restarted',
  no_progress: 'it made no progress',
  fatal_signature: 'it hit a fatal error',
  stdout_closed: 'it closed its stdout',
  stdin_stalled: 'it stopped reading its stdin',
}

const LINE_CHARS = 200

/** Of a start: a server that has served prints errors of single requests, too. */
function lastLine({ phase, stderrTail }: EndReport): string {
  if (phase !== 'starting') return ''
  const explaining = explainingLine(stderrTail)
  if (explaining !== undefined) return `: ${explaining.trim().slice(0, LINE_CHARS)}`
  const last = stderrTail.findLast((text) => text.trim() !== '')
  return last === undefined ? '' : `; its last line was: ${last.trim().slice(0, LINE_CHARS)}`
}
