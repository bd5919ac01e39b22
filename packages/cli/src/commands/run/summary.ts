/** The last lines of a run: how it ended, which faults it survived, what it changed, what you can do next. */
import type { FaultReport } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import { isCutOff, type Session, type SessionProcess } from '@breakfall/wire'
import { cmd } from '../../process/command-name.ts'
import { changedText } from '../../render/changed-text.ts'
import { faultPage, isForLackOfSandbox, WITHOUT_SANDBOX } from '../../render/fault-help.ts'
import { CUT_OFF, finishLines } from '../../render/finish-lines.ts'
import { howItContinues, waitsFor } from '../../render/parked.ts'
import { leftRunning } from '../../render/processes.ts'
import type { Segment, Survived, TurnView } from '../../render/turn-view.ts'
import { counted, money, tokens } from '../../text/amounts.ts'
import type { RunResult } from './result.ts'

export type SummaryOptions = {
  readonly isLasting: boolean
  readonly processes?: readonly SessionProcess[]
  /** What `howItContinues` takes. */
  readonly serverFlags?: string | undefined
}

export function summary(
  result: RunResult,
  view: TurnView,
  session: Session,
  { isLasting, processes = [], serverFlags }: SummaryOptions,
): readonly Segment[] {
  const out: Segment[] = [line('plain', ''), headline(result, view.steps)]
  if (result.outcome === 'finished')
    for (const text of finishLines(result, session.id)) out.push(line('plain', `  ${text}`))
  const used = usedLine(result)
  if (used !== '') out.push(line('dim', `  ${used}`))
  for (const { category, what, how, times } of grouped(view.survived))
    out.push(line('dim', `  survived ${category}${times > 1 ? ` ×${times}` : ''}: ${what} → ${how}`))
  const { filesChanged, filesUnknown, tools } = view.record
  const isUnknown = filesUnknown && view.endedAt !== undefined
  const files = changedText({ files: filesChanged, isUnknown, tools: Object.keys(tools) })
  if (files !== '') out.push(line('dim', `  changed ${files}`))
  for (const process of processes) out.push(line('plain', `  ${leftRunning(process)}`))
  if (result.outcome === 'parked')
    out.push(line('plain', `  ${howItContinues(session.id, isLasting, result.fault?.category ?? '', serverFlags)}`))
  if (result.left === true || result.outcome === 'detached')
    out.push(
      line('plain', `  to follow it: ${cmd('attach')} ${session.id}; to cancel it: ${cmd('cancel')} ${session.id}`),
    )
  if (result.fault !== null && isForLackOfSandbox(result.fault)) out.push(line('plain', `  ${WITHOUT_SANDBOX}`))
  if (result.outcome === 'failed' && result.fault !== null)
    out.push(line('plain', `  more: ${cmd('explain')} ${result.fault.category}, ${faultPage(result.fault.category)}`))
  return out
}

// ---- details, in the order they are used above ----

const line = (tone: Segment['tone'], text: string): Segment => ({ kind: 'line', tone, text })

function headline(result: RunResult, steps: number): Segment {
  // A turn that was adopted may end before an event has told its step.
  const within = steps === 0 ? '' : ` in ${counted(steps, 'step')}`
  const after = steps === 0 ? '' : ` after ${counted(steps, 'step')}`
  const times = result.faultsSurvived
  const faults = times === 0 ? 'no faults' : `${counted(times, 'fault')} survived`
  switch (result.outcome) {
    case 'finished':
      if (isCutOff(result)) return line('warn', `◐ ${CUT_OFF}${within}, ${faults}`)
      return line('good', `✓ finished${within}, ${faults}`)
    case 'failed':
      return line('bad', `✗ failed${after}${times === 0 ? '' : `, ${faults}`}`)
    case 'cancelled':
      if (result.left === true) return line('warn', `■ stopped following${after}; the turn is still running`)
      return line('warn', `■ cancelled${after}`)
    case 'detached':
      return line('good', '▷ started; the turn continues in the background')
    case 'parked': // the fault itself was shown when the turn parked
      return line('warn', `⏸ still parked${after}${result.fault === null ? '' : `: waiting ${reasonOf(result.fault)}`}`)
  }
}

/** Tokens, cost and time, as far as they are known. */
function usedLine({ usage, cost, durationMs }: RunResult): string {
  const parts = [
    usage === undefined || isNothing(usage) ? undefined : tokens(usage),
    money(cost),
    durationMs === undefined ? undefined : duration(durationMs),
  ]
  return parts.filter((part) => part !== undefined).join(', ')
}

/** No model was reached. */
const isNothing = ({ inputTokens, outputTokens }: NonNullable<RunResult['usage']>): boolean =>
  inputTokens.value === 0 && outputTokens.value === 0

const reasonOf = ({ category }: FaultReport): string => waitsFor({ category, resumeAt: null })

/** One line for the same fault with the same recovery. */
function grouped(survived: readonly Survived[]): readonly (Survived & { times: number })[] {
  const rows = new Map<string, Survived & { times: number }>()
  for (const entry of survived) {
    const key = `${entry.category} ${entry.how}`
    const row = rows.get(key)
    if (row === undefined) rows.set(key, { ...entry, times: 1 })
    else row.times++
  }
  return [...rows.values()]
}
