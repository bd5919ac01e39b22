/** Ollama's own API: lines of JSON, whose last says `done`. */
import { type Answer, split } from './answer.ts'
import type { Api } from './api.ts'
import type { Frame, Json } from './case.ts'
import type { Dice } from './dice.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import { type Said, SaidPieces } from './said.ts'

export const ollama: Api = {
  name: 'ollama',
  shape: 'lines',
  abilities: { kinds: ['text', 'text', 'text', 'call', 'call', 'thought'], lanesMax: 1, signed: [] },
  request: (dice) => ({
    path: '/api/chat',
    body: {
      model: 'm',
      ...(dice.chance('says that it streams', 50) ? { stream: true } : {}),
      messages: [{ role: 'user', content: 'x' }],
      ...(dice.chance('tools', 50) ? { tools: [{ type: 'function', function: { name: 'ls' } }] } : {}),
    },
  }),
  frames,
  whole: (answer) => ({
    ...STAMP,
    message: {
      role: 'assistant',
      content: textOf(answer, 'text'),
      ...(textOf(answer, 'thought') === '' ? {} : { thinking: textOf(answer, 'thought') }),
      ...(callsOf(answer).length === 0 ? {} : { tool_calls: callsOf(answer) }),
    },
    ...end(answer),
  }),
  unfolded: (whole) => [{ data: JSON.stringify(whole) }],
  read,
  error: () => ({ data: '{"error":"model runner has unexpectedly stopped"}' }),
}

// ---- making ----

const STAMP = { model: 'm', created_at: '2026-11-20T00:00:00.123456789Z' }

const line = (message: Json, more: Json = { done: false }): Frame => ({
  data: JSON.stringify({ ...STAMP, message: { role: 'assistant', content: '', ...message }, ...more }),
})

function frames(dice: Dice, answer: Answer): readonly Frame[] {
  const pieces = answer.lanes[0]?.pieces ?? []
  const said = pieces.flatMap((piece, at): readonly Frame[] => {
    const own = dice.in(`piece ${at}`)
    if (piece.kind === 'call') return [line({ tool_calls: [callOf(piece)] })]
    if (!('text' in piece)) return []
    const key = piece.kind === 'thought' ? 'thinking' : 'content'
    return split(own, piece.text).map((text) => line({ [key]: text }))
  })
  return [...said, line({}, end(answer))]
}

function callOf({ id, name, args }: { readonly id: string; readonly name: string; readonly args: string }): Json {
  return { id, function: { name, arguments: JSON.parse(args) as unknown } }
}

const callsOf = ({ lanes: [lane] }: Answer): readonly Json[] =>
  (lane?.pieces ?? []).flatMap((piece) => (piece.kind === 'call' ? [callOf(piece)] : []))

const textOf = ({ lanes: [lane] }: Answer, kind: string): string =>
  (lane?.pieces ?? []).map((piece) => (piece.kind === kind && 'text' in piece ? piece.text : '')).join('')

const end = ({ lanes: [lane], usage: [prompt_eval_count, eval_count] }: Answer): Json => ({
  done: true,
  done_reason: lane?.isShort === true ? 'length' : 'stop',
  total_duration: 5_191_566_416,
  prompt_eval_count,
  eval_count,
})

// ---- reading ----

/** As Ollama's clients do: they put texts, thoughts and calls together by kind. */
function read(list: readonly Frame[]): Said {
  const pieces = new SaidPieces()
  const problems: string[] = []
  let [isComplete, isError] = [false, false]
  let [finish, usage]: unknown[] = [null]
  for (const { data } of list) {
    const json = parsed(data)
    if (isComplete) problems.push('a line after the last')
    if (typeof json['error'] === 'string') isError = true
    const message = objectIn(json, 'message')
    pieces.text(0, 'thought', textIn(message, 'thinking'))
    pieces.text(0, 'text', textIn(message, 'content'))
    for (const call of objectsIn(message, 'tool_calls')) {
      const called = objectIn(call, 'function')
      pieces.call(0, textIn(call, 'id'), textIn(called, 'name'), JSON.stringify(objectIn(called, 'arguments')))
    }
    if (json['done'] !== true) continue
    isComplete = true
    finish = json['done_reason']
    usage = [json['prompt_eval_count'], json['eval_count']]
  }
  return {
    pieces: pieces.all(['thought', 'text', 'call']),
    signatures: [],
    finish: [finish],
    usage,
    isProven: isComplete,
    isComplete,
    isError,
    problems,
  }
}
