/** The daemon's log lines in words, for a person at a terminal. Pure. */
import { shortener } from '../sessions/ids.ts'
import { clock } from './waits.ts'

/** `2026-11-15 22:40:36 UTC  turn parked: model_unreachable (session 01a1e15e-9b05)`. What is no log line stays as it is. */
export function logLine(line: string): string {
  const fields = fieldsOf(line)
  if (fields === undefined) return line.trimEnd()
  const { time, msg, category, resumeAt, sessionId, what, err, tool, because, url, runner } = fields
  const until = typeof resumeAt === 'string' ? `until ${clock(resumeAt)}` : undefined
  const why = [url, runner, tool, because, category, until, what, sentenceOf(err)]
  const words = why.filter((word): word is string => typeof word === 'string' && word !== '').join(', ')
  const at = typeof time === 'number' ? `${clock(new Date(time).toISOString())}  ` : ''
  const session = typeof sessionId === 'string' ? ` (session ${shortener([sessionId])(sessionId)})` : ''
  return `${at}${String(msg)}${words === '' ? '' : `: ${words}`}${session}`
}

// ---- details ----

function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = JSON.parse(line) as Record<string, unknown> | null
    return typeof value?.['msg'] === 'string' ? value : undefined
  } catch {
    return undefined // not one of the daemon's own lines
  }
}

function sentenceOf(err: unknown): unknown {
  const { error, message } = (err ?? {}) as { error?: unknown; message?: unknown }
  return error ?? message
}
