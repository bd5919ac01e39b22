/** The gateway's requests and faults, one line each, for a person at a terminal. Pure. */
import { duration } from '@breakfall/faults/internal'
import type { GatewayLogEntry, GatewayTotals, WatchNote } from '@breakfall/gateway'
import { counted } from '../../text/amounts.ts'
import { withoutControls } from '../../text/printable.ts'

export type GatewayLine = { readonly tone: 'good' | 'warn' | 'bad' | 'dim'; readonly text: string }

/** One finished request. */
export function requestLine(entry: GatewayLogEntry, text: string, isWarning: boolean, at: string): GatewayLine {
  const { method = '', path, status, model, ms, attempts = 1, faults = [], category, errorRaw, healed } = entry
  const isHealed = faults.length > 0 && category === undefined
  const parts = [
    `${method} ${path}`.trim(),
    ...(model === undefined ? [] : [model]),
    String(status),
    ...(ms === undefined ? [] : [duration(ms)]),
    ...(healed === false ? ['not healed'] : []),
    ...(attempts > 1 ? [`${attempts} attempts`] : []),
    ...(isHealed ? [`survived ${categoriesIn(faults)}`] : []),
    ...(category === undefined ? [] : [`${text}: ${category}${errorRaw === undefined ? '' : ` (${errorRaw})`}`]),
  ]
  const mark = isWarning ? '✗' : category === undefined ? '✓' : '■' // the client ended it: neither
  return {
    tone: isWarning ? 'bad' : isHealed ? 'good' : 'dim',
    text: line(at, mark, entry.requestId, parts.join('  ')),
  }
}

/** A failed attempt and what the gateway does about it, or an answer in doubt. Everything else is in the request's own line. */
export function noteLine({ kind, at, requestId, category, text }: WatchNote): GatewayLine | undefined {
  if (kind !== 'fault') return undefined
  return { tone: 'warn', text: line(at, '⚡', requestId, category === null ? text : `${category}: ${text}`) }
}

export const totalsLine = ({ requests, attempts, faults, healed, lost, repaired, unhealed }: GatewayTotals): string =>
  `${counted(requests, 'request')}, ${counted(attempts, 'attempt')}, ${counted(faults, 'fault')}, ${healed} healed, ${lost} lost${repaired === 0 ? '' : `, ${repaired} repaired`}${unhealed === 0 ? '' : `, ${unhealed} not healed`}`

// ---- details ----

const CHARS_MAX = 300

const line = (at: string, mark: string, requestId: string, text: string): string =>
  withoutControls(`${at.slice(11, 19)} ${mark} ${requestId.slice(-6)}  ${text}`)
    .replaceAll('\n', ' ')
    .slice(0, CHARS_MAX)

function categoriesIn(categories: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const category of categories) counts.set(category, (counts.get(category) ?? 0) + 1)
  return [...counts].map(([category, times]) => (times === 1 ? category : `${category} ×${times}`)).join(', ')
}
