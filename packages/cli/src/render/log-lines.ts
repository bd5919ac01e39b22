/** The daemon's JSON log lines as text, for a person at a terminal. Pure. */
import { counted, utcTime } from '../text/amounts.ts'
import { shortener } from '../text/table.ts'

/** `2026-11-15 22:40:36 UTC  turn parked: model_unreachable (session 01a1e15e-9b05)`. Any other line is unchanged. */
export function logLine(line: string): string {
  const fields = fieldsOf(line)
  if (fields === undefined) return line.trimEnd()
  const { time, msg, category, resumeAt, sessionId, what, err, tool, because, url, runner, mcp } = fields
  const until = typeof resumeAt === 'string' ? `until ${utcTime(resumeAt)}` : undefined
  const details = [serverText(mcp), url, runner, tool, because, category, until, what, sentenceOf(err)]
    .filter((detail): detail is string => typeof detail === 'string' && detail !== '')
    .join(', ')
  const at = typeof time === 'number' ? `${utcTime(new Date(time).toISOString())}  ` : ''
  const session = typeof sessionId === 'string' ? ` (session ${shortener([sessionId])(sessionId)})` : ''
  return `${at}${String(msg)}${details === '' ? '' : `: ${details}`}${session}`
}

/** A log line of the command line, in the format of the daemon and the gateway. */
export const warningLine = (msg: string, time: number): string => JSON.stringify({ level: WARN, time, msg })

// ---- details ----

const WARN = 40 // pino's number

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

/** `files is ready, 4 tools` */
function serverText(mcp: unknown): string | undefined {
  if (typeof mcp !== 'object' || mcp === null || !('name' in mcp) || !('state' in mcp)) return undefined
  const tools = 'tools' in mcp && mcp.state === 'ready' ? `, ${counted(Number(mcp.tools), 'tool')}` : ''
  const why = 'error' in mcp && typeof mcp.error === 'string' ? `: ${mcp.error}` : ''
  return `${String(mcp.name)} is ${String(mcp.state)}${tools}${why}`
}

function sentenceOf(err: unknown): unknown {
  if (typeof err !== 'object' || err === null) return undefined
  return 'error' in err ? err.error : 'message' in err ? err.message : undefined
}
