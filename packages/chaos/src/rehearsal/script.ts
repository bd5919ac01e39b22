/** What the rehearsal model says next. Pure: the same conversation gets the same answer, ids included. */
import { digestOf } from '../random.ts'
import { type Message, type Move, type ToolCall, type Turn, turnOf } from './conversation.ts'
import { echo } from './echo.ts'
import { flood, FLOOD_MB_MAX, hostile, slow } from './extremes.ts'
import { fix } from './fix.ts'
import { steps, STEPS_MAX } from './steps.ts'

export type Answer = {
  readonly id: string
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly ToolCall[]
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number }
}

export type Script = { readonly name: string; readonly tools: readonly string[]; play(turn: Turn): Move }

/** Selected by the model's name (`rehearsal/fix`, `steps-50`, `echo`, `hostile`, `flood-10`, `slow`), else by the prompt; undefined for an unknown script. */
export function scriptFor(model: string, prompt: string): Script | undefined {
  const scriptName = scriptNamed(model, prompt) ?? 'fix'
  const [, count] = /^steps[ :-](\d+)$/.exec(scriptName) ?? []
  if (count !== undefined && Number(count) >= 1 && Number(count) <= STEPS_MAX) {
    return { name: `steps-${Number(count)}`, tools: ['bash'], play: (turn) => steps(turn, Number(count)) }
  }
  if (scriptName === 'fix') return { name: 'fix', tools: ['bash', 'read', 'edit', 'write'], play: fix }
  if (scriptName === 'echo') return { name: 'echo', tools: [], play: echo }
  if (scriptName === 'hostile') return { name: 'hostile', tools: ['bash'], play: hostile }
  if (scriptName === 'slow') return { name: 'slow', tools: ['bash'], play: slow }
  const [, megabytes = '0'] = /^flood-(\d+)$/.exec(scriptName) ?? []
  const mb = Number(megabytes)
  if (mb >= 1 && mb <= FLOOD_MB_MAX) return { name: `flood-${mb}`, tools: ['bash'], play: (turn) => flood(turn, mb) }
  return undefined
}

/** The name in the model's name or the prompt. Undefined if there is none in either. */
export const scriptNamed = (model: string, prompt: string): string | undefined =>
  /^rehearsal\/(.*)$/.exec(model)?.[1] ?? /^(steps[ :-]\d+|echo\b)/.exec(prompt)?.[1]

/** `offered` are the names of the client's tools, or null if it sent no list. */
export function answerTo(script: Script, conversation: readonly Message[], offered: readonly string[] | null): Answer {
  const turn = turnOf(conversation)
  const missing = offered === null ? [] : script.tools.filter((tool) => !offered.includes(tool))
  const move = missing.length > 0 ? needsTools(script, missing, offered ?? []) : script.play(turn)
  const id = digestOf(script.name, JSON.stringify(conversation))
  const calls = (move.calls ?? []).map((call, i) => ({ id: `call_${digestOf(id, String(i))}`, ...call }))
  const text = move.text.startsWith(turn.prefill) ? move.text.slice(turn.prefill.length) : move.text
  const reasoning = turn.prefill === '' ? (move.reasoning ?? '') : '' // a continued answer has already reasoned
  return {
    id,
    reasoning,
    text,
    calls,
    usage: {
      inputTokens: tokensOf(JSON.stringify(conversation)),
      outputTokens: tokensOf(reasoning + text + JSON.stringify(calls.map((call) => call.arguments))),
    },
  }
}

export const REHEARSAL_MODELS = [
  'rehearsal/fix',
  'rehearsal/steps-50',
  'rehearsal/echo',
  'rehearsal/hostile',
  'rehearsal/flood-10',
  'rehearsal/slow',
] as const

// ---- details ----

function needsTools(script: Script, missing: readonly string[], offered: readonly string[]): Move {
  return {
    text: `The script "${script.name}" needs the tools ${missing.join(', ')}, which this client does not offer. ${instead(offered)}`,
  }
}

const instead = (offered: readonly string[]): string =>
  offered.includes('bash') ? 'The model rehearsal/steps-8 needs only bash.' : 'The model rehearsal/echo needs no tools.'

const tokensOf = (text: string): number => Math.ceil(text.length / 4)
