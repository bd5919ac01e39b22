/** A turn as lines of text: how it went, what it used and what it changed. Pure. */
import { duration } from '@breakfall/faults/internal'
import type { Turn } from '@breakfall/wire'
import { isAbandoned } from '../sessions/lookup.ts'
import { money, tokens } from './amounts.ts'
import { changedText } from './changed-text.ts'
import { counted } from './counted.ts'
import { howToContinue, parkedLines } from './parked.ts'
import { asTyped } from '../process/command-name.ts'

/** `note` is said below the headline. */
export function turnLines(turn: Turn, note?: string): readonly string[] {
  const { fault, result, sessionId, parked, live } = turn
  const lines = [headline(turn)]
  if (isAbandoned(turn)) lines.push(`  but no daemon is working on it; ${howToContinue(sessionId)}`)
  if (note !== undefined) lines.push(`  ${note}`)
  lines.push(...turnFacts(turn).map((line) => `  ${line}`))
  if (parked !== null) lines.push(...parkedLines(parked, sessionId, live !== false).map((line) => `  ${line}`))
  if (fault !== null) lines.push(`  ${asTyped(fault.error)}`)
  if (fault !== null && fault.category !== 'cancelled') lines.push(`  ${fault.category}: ${fault.errorRaw}`) // a cancel's errorRaw repeats the sentence
  if (result !== null) lines.push(result.text)
  return lines
}

/** Prompt, tools, faults, tokens, cost and files, as far as they are known. */
export function turnFacts(turn: Turn): readonly string[] {
  const { prompt, tools = {}, faultsSurvived = 0, usage, cost, filesChanged = [], filesUnknown = false } = turn
  const { unknownOutcomes = 0, longOutputs = [] } = turn
  const called = Object.entries(tools).map(([tool, times]) => (times === 1 ? tool : `${tool} ×${times}`))
  const facts: readonly (readonly [string, string])[] = [
    ['prompt', firstLine(prompt)],
    ['tools', called.join(', ')],
    ['survived', faultsSurvived === 0 ? '' : counted(faultsSurvived, 'fault')],
    ['unknown', unknownOutcomes === 0 ? '' : `whether ${counted(unknownOutcomes, 'call')} ran`],
    ['used', turn.attempts === 0 ? '' : [tokens(usage), money(cost)].filter((text) => text !== undefined).join(', ')],
    ['changed', changedText(filesChanged, filesUnknown, turn.endedAt !== null)],
    ...longOutputs.map((execId) => ['cut', asTyped(`a long output; all of it: breakfall output ${execId}`)] as const),
  ]
  return facts.flatMap(([name, text]) => (text === '' ? [] : [`${name.padEnd(8)} ${text}`]))
}

// ---- details, in the order they are used above ----

function headline({ id, state, steps, attempts, startedAt, endedAt }: Turn): string {
  const took =
    startedAt === null || endedAt === null ? '' : `, ${duration(Date.parse(endedAt) - Date.parse(startedAt))}`
  return `turn ${id}: ${state}, ${counted(steps, 'step')}, ${counted(attempts, 'attempt')}${took}`
}

function firstLine(text: string): string {
  const [first = '', ...more] = text.trim().split('\n')
  const cut = first.length > 160 ? `${first.slice(0, 159)}…` : first
  return more.length === 0 ? cut : `${cut} (and ${counted(more.length, 'more line')})`
}
