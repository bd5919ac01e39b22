/** The last lines of a run: how it ended, what was survived, what changed, what you can do next. */
import type { FaultReport } from '@breakfall/faults'
import type { Session } from '@breakfall/wire'
import type { RunResult } from '../run/turn.ts'
import { faultPage } from './fault-page.ts'
import type { Piece, Survived, TurnView } from './turn-view.ts'
import { goesOn, waitsFor } from './waits.ts'

export const WITHOUT_SANDBOX = 'to go on without a sandbox, at your own risk: breakfall run --isolation process'

export function summary(result: RunResult, view: TurnView, session: Session, isLasting: boolean): readonly Piece[] {
  const line = (tone: Piece['tone'], text: string): Piece => ({ kind: 'line', tone, text })
  const out: Piece[] = [line('plain', '')]
  out.push(headline(result, view.steps, line))
  for (const { category, what, how, times } of counted(view.survived)) {
    out.push(line('dim', `  survived ${category}${times > 1 ? ` ×${times}` : ''}: ${what} → ${how}`))
  }
  if (view.filesChanged.size > 0) out.push(line('dim', `  changed ${[...view.filesChanged].join(', ')}`))
  if (result.outcome === 'parked')
    out.push(line('plain', `  ${goesOn(session.id, isLasting, result.fault?.category ?? '')}`))
  if (result.left === true)
    out.push(line('plain', `  to see it: breakfall tail ${session.id}; to end it: breakfall cancel ${session.id}`))
  if (result.fault?.category === 'isolation_unavailable') out.push(line('plain', `  ${WITHOUT_SANDBOX}`))
  if (result.outcome === 'failed' && result.fault !== null)
    out.push(line('plain', `  more: breakfall explain ${result.fault.category}, ${faultPage(result.fault.category)}`))
  return out
}

// ---- details ----

function headline(result: RunResult, steps: number, line: (tone: Piece['tone'], text: string) => Piece): Piece {
  const count = `${steps} step${steps === 1 ? '' : 's'}`
  // A turn that was taken up again may end before it has told how far it is.
  const within = steps === 0 ? '' : ` in ${count}`
  const after = steps === 0 ? '' : ` after ${count}`
  const times = result.faultsSurvived
  const faults = times === 0 ? 'no faults' : `${times} fault${times === 1 ? '' : 's'} survived`
  switch (result.outcome) {
    case 'finished':
      return line('good', `✓ finished${within}, ${faults}`)
    case 'failed':
      return line('bad', `✗ failed${after}${times === 0 ? '' : `, ${faults}`}`)
    case 'cancelled':
      if (result.left === true) return line('warn', `■ not followed any more${after}; the turn goes on`)
      return line('warn', `■ cancelled${after}`)
    case 'parked': // the sentence was shown when it was parked
      return line('warn', `⏸ still parked${after}${result.fault === null ? '' : `: waits ${waitsOf(result.fault)}`}`)
  }
}

const waitsOf = ({ category }: FaultReport): string => waitsFor({ category, resumeAt: null })

/** The same trouble several times is one line. */
function counted(survived: readonly Survived[]): readonly (Survived & { times: number })[] {
  const rows = new Map<string, Survived & { times: number }>()
  for (const entry of survived) {
    const key = `${entry.category} ${entry.how}`
    const row = rows.get(key)
    if (row === undefined) rows.set(key, { ...entry, times: 1 })
    else row.times++
  }
  return [...rows.values()]
}
