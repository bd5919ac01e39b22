/** A turn as lines of text: how it went, what it used and what it changed. Pure. */
import { duration } from '@breakfall/faults/internal'
import { isCutOff, type Turn } from '@breakfall/wire'
import { asTyped, cmd } from '../process/command-name.ts'
import type { Output } from '../terminal/output.ts'
import { counted, money, tokens } from '../text/amounts.ts'
import { shortened } from '../text/table.ts'
import { changedText } from './changed-text.ts'
import { CUT_OFF, finishLines } from './finish-lines.ts'
import { howToContinue, isAbandoned, parkedLines } from './parked.ts'

export type TurnNotes = {
  /** Said below the headline. */
  readonly note?: string | undefined
  /** The categories of the faults that the turn survived, if they are known. */
  readonly survived?: readonly string[] | undefined
}

export function turnLines(turn: Turn, { note, survived }: TurnNotes = {}): readonly string[] {
  const { fault, result, sessionId, parked, live } = turn
  const lines = [headline(turn)]
  if (isAbandoned(turn)) lines.push(`  but no daemon is working on it; ${howToContinue(sessionId)}`)
  if (note !== undefined) lines.push(`  ${note}`)
  lines.push(...turnFacts(turn, survived).map((line) => `  ${line}`))
  if (turn.state === 'finished') lines.push(...finishLines(turn, sessionId).map((line) => `  ${line}`))
  if (parked !== null) lines.push(...parkedLines(parked, sessionId, live !== false).map((line) => `  ${line}`))
  if (fault !== null) lines.push(`  ${asTyped(fault.error)}`)
  if (fault !== null && fault.category !== 'cancelled') lines.push(`  ${fault.category}: ${fault.errorRaw}`) // a cancel's errorRaw repeats the sentence
  if (result !== null) lines.push(result.text)
  return lines
}

/** Prompt, tools, faults, tokens, cost and files, as far as they are known. */
export function turnFacts(turn: Turn, survived: readonly string[] = []): readonly string[] {
  const { prompt, tools = {}, faultsSurvived = 0, usage, cost, filesChanged = [], filesUnknown = false } = turn
  const { unknownOutcomes = 0, longOutputs = [] } = turn
  const facts: readonly (readonly [string, string])[] = [
    ['prompt', firstLine(prompt)],
    ['tools', times(tools)],
    ['survived', faultsSurvived === 0 ? '' : survivedText(faultsSurvived, survived)],
    ['unknown', unknownOutcomes === 0 ? '' : `whether ${counted(unknownOutcomes, 'call')} ran`],
    ['used', turn.attempts === 0 ? '' : [tokens(usage), money(cost)].filter((text) => text !== undefined).join(', ')],
    [
      'changed',
      changedText({
        files: filesChanged,
        isUnknown: filesUnknown,
        tools: Object.keys(tools),
        isEnded: turn.endedAt !== null,
      }),
    ],
    ...longOutputs.map((execId) => ['cut', `a long output; all of it: ${cmd('output')} ${execId}`] as const),
  ]
  return facts.flatMap(([name, text]) => (text === '' ? [] : [`${name.padEnd(8)} ${text}`]))
}

export const isOver = ({ state }: Turn): boolean => state === 'finished' || state === 'failed' || state === 'cancelled'

/** `note` is for a turn that has not ended. */
export function showTurn(turn: Turn, out: Output, { note, survived }: TurnNotes = {}): void {
  if (out.json) out.result(turn)
  else for (const line of turnLines(turn, { note: isOver(turn) ? undefined : note, survived })) out.line(line)
}

// ---- details, in the order they are used above ----

function headline(turn: Turn): string {
  const { id, state, steps, attempts, startedAt, endedAt } = turn
  const took =
    startedAt === null || endedAt === null ? '' : `, ${duration(Date.parse(endedAt) - Date.parse(startedAt))}`
  return `turn ${id}: ${isCutOff(turn) ? CUT_OFF : state}, ${counted(steps, 'step')}, ${counted(attempts, 'attempt')}${took}`
}

/** `bash ×2, edit` */
const times = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => (count === 1 ? name : `${name} ×${count}`))
    .join(', ')

function survivedText(count: number, categories: readonly string[]): string {
  const counts: Record<string, number> = {}
  for (const category of categories) counts[category] = (counts[category] ?? 0) + 1
  return `${counted(count, 'fault')}${categories.length === 0 ? '' : `: ${times(counts)}`}`
}

function firstLine(text: string): string {
  const [first = '', ...more] = text.trim().split('\n')
  const cut = shortened(first, 160)
  return more.length === 0 ? cut : `${cut} (and ${counted(more.length, 'more line')})`
}
