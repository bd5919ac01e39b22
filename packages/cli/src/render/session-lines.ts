/** Sessions and turns as lines of text. Pure. */
import type { Session, Turn } from '@breakfall/wire'
import { shortener } from '../sessions/ids.ts'
import { isAbandoned } from '../sessions/lookup.ts'
import { counted } from './counted.ts'
import type { Output } from './output.ts'
import { howToContinue, parkedLines } from './parked.ts'

const HEAD = ['SESSION', 'STATE', 'FOLDER', 'MODEL', 'TITLE'] as const

/** A header, a line per session, and below a parked session what it waits for. */
export function sessionTable(
  sessions: readonly Session[],
  parked: ReadonlyMap<string, Turn>,
  style: Output['style'],
): readonly string[] {
  const shortId = shortener(sessions.map(({ id }) => id))
  const rows = sessions.map((session) => {
    const { id, state, model, title, workspace } = session
    const status = isAbandoned(session) ? `${state}, no daemon` : state
    const cells = [
      shortId(id),
      status,
      workspace ?? '(private)',
      model === '' || model === 'default' ? '(default)' : model,
      title ?? '',
    ]
    return cells.map((cell) => cell.replaceAll(/\s+/g, ' ')) // a line break in a name would look like another session
  })
  const widths = HEAD.map((word, column) => Math.max(word.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const padded = (row: readonly string[]): string =>
    row.map((cell, column) => (column === HEAD.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join('  ')
  return [
    style('dim', padded(HEAD)),
    ...sessions.flatMap((session, index) => {
      const line = padded(rows[index] ?? []).trimEnd()
      const turn = parked.get(session.id)
      const shown = session.state === 'idle' ? line : style(session.state === 'parked' ? 'yellow' : 'green', line)
      return turn === undefined ? [shown] : [shown, ...waitLines(turn, shortId(session.id))]
    }),
  ]
}

/** The session's fields, without empty ones. */
export function sessionLines(session: Session): readonly string[] {
  return Object.entries(session)
    .filter(([, value]) => value !== null && value !== '' && (typeof value !== 'object' || hasEntries(value)))
    .map(([key, value]) => `${key.padEnd(10)} ${textOf(value)}`)
}

export function turnLines(turn: Turn, note?: string): readonly string[] {
  const { id, state, fault, result, sessionId } = turn
  const lines = [`turn ${id}: ${state}, ${counted(turn.steps, 'step')}, ${counted(turn.attempts, 'attempt')}`]
  if (isAbandoned(turn)) lines.push(`  but no daemon is working on it; ${howToContinue(sessionId)}`)
  if (note !== undefined) lines.push(`  ${note}`)
  lines.push(...waitLines(turn, sessionId))
  if (fault !== null) lines.push(`  ${fault.error}`)
  if (fault !== null && fault.category !== 'cancelled') lines.push(`  ${fault.category}: ${fault.errorRaw}`) // a cancel's errorRaw repeats the sentence
  if (result !== null) lines.push(result.text)
  return lines
}

// ---- details, in the order they are used above ----

const waitLines = ({ parked, live }: Turn, sessionId: string): readonly string[] =>
  parked === null ? [] : parkedLines(parked, sessionId, live !== false).map((line) => `  ${line}`)

const hasEntries = (value: unknown): boolean => Object.keys(value ?? {}).length > 0

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  const isPlainList = Array.isArray(value) && value.every((entry) => typeof entry === 'string')
  return isPlainList ? value.join(', ') : JSON.stringify(value)
}
