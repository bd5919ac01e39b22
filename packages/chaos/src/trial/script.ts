/**
 * What the model of a trial says: a few steps, each with a text and a shell command, then a last text. Pure.
 *
 * I1  Each take of an answer has its own words, as a real model never says the same thing twice. So text that an agent shows from a
 *     broken take is recognised.
 * I2  Each word is one streamed chunk: an agent that prints its chunks as JSON does not split a word.
 * I3  A step counts as done only if its result contains a number that the shell calculated. If not, the model looks before it repeats
 *     the command, as a careful model does.
 */
import { digestOf } from '../random.ts'
import type { Message, ToolCall } from '../rehearsal/conversation.ts'
import type { Answer } from '../rehearsal/script.ts'
import type { ShellTool } from '../rehearsal/shell-tool.ts'

export const STEPS = 3
/** The number of the last answer, which calls no tool. */
export const LAST_STEP = STEPS + 1
/** The number of an answer to a request without a shell tool: a title, or the only answer of a client without tools. */
export const PLAIN_STEP = 0
export const WORDS = 12

/** What the model has to say next, or null if the trial is over. */
export type Position = { readonly step: number; readonly does: 'step' | 'check' | 'text' }

export function positionOf(conversation: readonly Message[], hasShell: boolean): Position | null {
  if (!hasShell) return { step: PLAIN_STEP, does: 'text' }
  if (
    conversation.some(
      (m) => m.role === 'assistant' && m.calls.length === 0 && wordsOf(m.text, LAST_STEP).length >= WORDS,
    )
  )
    return null
  const results = new Map(conversation.filter((m) => m.role === 'tool').map((m) => [m.callId, m.text]))
  let done = 0
  let isUnsure = false
  let calls = 0
  for (const call of conversation.flatMap((message) => message.calls)) {
    const [, kind, number] = /trial-(step|check)-(\d+)/.exec(JSON.stringify(call.arguments)) ?? []
    if (kind === undefined) continue
    calls += 1
    const result = results.get(call.id) ?? ''
    const step = Number(number)
    if (result.includes(kind === 'step' ? ranProof(step) : checkProof(step, 1))) [done, isUnsure] = [step, false]
    else isUnsure = kind === 'step' || !result.includes(checkProof(step, 0)) // I3
  }
  if (done >= STEPS || calls >= CALLS_MAX) return { step: LAST_STEP, does: 'text' }
  return { step: done + 1, does: isUnsure ? 'check' : 'step' }
}

/** `take` counts the answers at this position, from 1. */
export function answerAt(position: Position, take: number, tool: ShellTool | undefined, ledger: string): Answer {
  const { step, does } = position
  const id = digestOf('trial', String(step), does, String(take))
  const command = does === 'check' ? checkCommand(step, ledger) : stepCommand(step, ledger)
  const calls: ToolCall[] =
    does === 'text' || tool === undefined
      ? []
      : [{ id: `call_${id}`, name: tool.name, arguments: tool.arguments(command) }]
  const text = does === 'check' ? 'I did not see the result, so I will check.' : textOf(step, take)
  return { id, reasoning: '', text, calls, usage: { inputTokens: 100, outputTokens: 30 } }
}

export const OVER: Answer = {
  id: digestOf('trial', 'over'),
  reasoning: '',
  text: 'The trial is over.',
  calls: [],
  usage: { inputTokens: 100, outputTokens: 5 },
}

export type Word = { readonly step: number; readonly take: number; readonly index: number }

/** Finds the trial's words in an agent's output. */
export function wordsOf(output: string, step?: number): Word[] {
  return Array.from(output.matchAll(/s(\d\d)t(\d\d)w(\d\d)ok/g), ([, s, t, w]) => ({
    step: Number(s),
    take: Number(t),
    index: Number(w),
  })).filter((word) => step === undefined || word.step === step)
}

// ---- details ----

const CALLS_MAX = 12 // an agent whose shell does nothing would never end
const FACTOR = 7919

const two = (value: number): string => String(value % 100).padStart(2, '0')
const wordOf = ({ step, take, index }: Word): string => `s${two(step)}t${two(take)}w${two(index)}ok` // I2: 11 characters and a space

const textOf = (step: number, take: number): string =>
  Array.from({ length: WORDS }, (_, i) => wordOf({ step, take, index: i + 1 })).join(' ') // I1

/** What the commands print. Not part of their text, so an echo of a command proves nothing. `found`: 1 if the step ran. */
const ranProof = (step: number): string => String(step * FACTOR)
const checkProof = (step: number, found: 0 | 1): string => String(step * FACTOR * 10 + found)

// Without `$(`: some agents refuse commands that substitute others.
const stepCommand = (step: number, ledger: string): string =>
  `: trial-step-${step}; echo ${step} >> ${quoted(ledger)} && expr ${step} '*' ${FACTOR}`

const checkCommand = (step: number, ledger: string): string =>
  `: trial-check-${step}; cat ${quoted(ledger)} | awk '$0 == ${step} { found = 1 } END { print ${step * FACTOR * 10} + found }'`

const quoted = (path: string): string => `'${path.replaceAll("'", String.raw`'\''`)}'`
