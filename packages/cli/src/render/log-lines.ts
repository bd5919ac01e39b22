/** The daemon's JSON log lines as text, for a person at a terminal. Pure. */
import { shortener } from '../sessions/ids.ts'
import { utcTime } from './parked.ts'

/** `2026-11-15 22:40:36 UTC  turn parked: model_unreachable (session 01a1e15e-9b05)`. Any other line is unchanged. */
export function logLine(line: string): string {
  const fields = fieldsOf(line)
  if (fields === undefined) return line.trimEnd()
  const { time, msg, category, resumeAt, sessionId, what, err, tool, because, url, runner } = fields
  const until = typeof resumeAt === 'string' ? `until ${utcTime(resumeAt)}` : undefined
  const details = [url, runner, tool, because, category, until, what, sentenceOf(err)]
    .filter((detail): detail is string => typeof detail === 'string' && detail !== '')
    .join(', ')
  const at = typeof time === 'number' ? `${utcTime(new Date(time).toISOString())}  ` : ''
  const session = typeof sessionId === 'string' ? ` (session ${shortener([sessionId])(sessionId)})` : ''
  return `${at}${String(msg)}${details === '' ? '' : `: ${details}`}${session}`
}

// ---- details ----

function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null && 'msg' in value && typeof value.msg === 'string'
      ? { ...value }
      : undefined
  } catch {
    return undefined // not a log line
  }
}

function sentenceOf(err: unknown): unknown {
  if (typeof err !== 'object' || err === null) return undefined
  return 'error' in err ? err.error : 'message' in err ? err.message : undefined
}
