/** The last lines of a run: how it ended, what was survived, what changed, what you can do next. */
import type { Session } from '@breakfall/wire'
import type { RunResult } from '../commands/run.ts'
import type { Piece, TurnView } from './turn-view.ts'

export function summary(result: RunResult, view: TurnView, session: Session): readonly Piece[] {
  const line = (tone: Piece['tone'], text: string): Piece => ({ kind: 'line', tone, text })
  const out: Piece[] = [line('plain', '')]
  out.push(headline(result, view, line))
  for (const { category, what, how, times } of counted(view)) {
    out.push(line('dim', `  survived ${category}${times > 1 ? ` ×${times}` : ''}: ${what} → ${how}`))
  }
  if (view.filesChanged.size > 0) out.push(line('dim', `  changed ${[...view.filesChanged].join(', ')}`))
  if (result.outcome === 'parked')
    out.push(
      line('plain', `  the turn stays parked; take it up again with: breakfall run --continue (session ${session.id})`),
    )
  if (result.outcome === 'failed' && result.fault !== null)
    out.push(line('plain', `  more: breakfall explain ${result.turnId}, docs/faults/${result.fault.category}.md`))
  return out
}

// ---- details ----

function headline(result: RunResult, view: TurnView, line: (tone: Piece['tone'], text: string) => Piece): Piece {
  const steps = `${view.steps} step${view.steps === 1 ? '' : 's'}`
  const faults =
    result.faultsSurvived === 0
      ? 'no faults'
      : `${result.faultsSurvived} fault${result.faultsSurvived === 1 ? '' : 's'} survived`
  switch (result.outcome) {
    case 'finished':
      return line('good', `✓ finished in ${steps}, ${faults}`)
    case 'failed':
      return line('bad', `✗ failed after ${steps}, ${faults}`)
    case 'cancelled':
      return line('warn', `■ cancelled after ${steps}`)
    case 'parked':
      return line('warn', `⏸ parked after ${steps}: ${result.fault?.error ?? 'it waits'}`)
  }
}

/** The same trouble several times is one line. */
function counted(view: TurnView): readonly { category: string; what: string; how: string; times: number }[] {
  const rows = new Map<string, { category: string; what: string; how: string; times: number }>()
  for (const entry of view.survived) {
    const key = `${entry.category} ${entry.how}`
    const row = rows.get(key)
    if (row === undefined) rows.set(key, { ...entry, times: 1 })
    else row.times++
  }
  return [...rows.values()]
}
