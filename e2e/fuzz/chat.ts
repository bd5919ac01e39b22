/** OpenAI's chat completions: makes streams of every valid form, and reads what a client gets. */
import { type Answer, type Call, hasCalls, isText, type Lane, split } from './answer.ts'
import type { Api } from './api.ts'
import type { Frame, Json } from './case.ts'
import { type Dice, times } from './dice.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import { type Said, SaidPieces } from './said.ts'

export const chat: Api = {
  name: 'openai-chat',
  abilities: {
    kinds: ['text', 'text', 'text', 'call', 'call', 'thought', 'thought', 'refusal'],
    lanesMax: 2,
    signed: ['thought'],
  },
  request: (dice, { lanes }) => ({
    path: '/v1/chat/completions',
    body: {
      model: 'm',
      stream: true,
      messages: [{ role: 'user', content: 'x' }],
      ...(lanes.length > 1 ? { n: lanes.length } : {}),
      ...(dice.chance('tools', 50)
        ? {
            tools: [
              {
                type: 'function',
                function: { name: 'ls', ...(dice.chance('required', 50) ? { parameters: { required: ['k0'] } } : {}) },
              },
            ],
          }
        : {}),
      ...(dice.chance('usage', 50) ? { stream_options: { include_usage: true } } : {}),
    },
  }),
  frames,
  whole,
  unfolded,
  continued,
  read,
  error: (dice) => ({
    data: JSON.stringify({
      error: { message: 'it broke', type: 'server_error', code: dice.one('code', [null, 'overloaded', 500]) },
    }),
  }),
}

// ---- making ----

/** One step of a choice: what one delta has to say. */
type Delta = Json

function frames(dice: Dice, answer: Answer, attempt: number, request: Json): readonly Frame[] {
  const style = dice.in('style')
  const top = {
    id: `chatcmpl-${attempt}`,
    object: 'chat.completion.chunk',
    created: 1 + attempt,
    model: 'm',
    ...(style.chance('fingerprint', 30) ? { system_fingerprint: `fp${attempt}` } : {}),
    ...(style.chance('unknown', 15) ? { x_unknown: { list: [1, 'é'] } } : {}),
  }
  const lanes = answer.lanes.map((lane, index) => laneDeltas(dice.in(`deltas ${index}`), lane))
  const endings = answer.lanes.map((lane, index) =>
    finishOf(dice.in(`end ${index}`), lane, lanes[index]?.isLegacy === true),
  )
  const chunks = interleaved(
    style,
    lanes.map(({ deltas }, lane) => withFinish(style, deltas, endings[lane] ?? 'stop')),
  )
  const isUsageAsked = objectIn(request, 'stream_options')['include_usage'] === true
  const usage = {
    prompt_tokens: answer.usage[0],
    completion_tokens: answer.usage[1],
    total_tokens: answer.usage[0] + answer.usage[1],
  }
  const isUsageLast = style.chance('usage on the last chunk', 15)
  const hasLogprobs = style.chance('logprobs', 10)
  const data = chunks.map((chunk, at) => ({
    ...top,
    choices: chunk.map(({ lane, delta, finish }) => ({
      index: lane,
      delta,
      ...(hasLogprobs ? { logprobs: delta['content'] === undefined ? null : { content: [] } } : {}),
      finish_reason: finish,
      ...(style.chance(`unknown ${at}`, 4) ? { x_choice: at } : {}),
    })),
    ...(isUsageAsked && isUsageLast && at === chunks.length - 1
      ? { usage }
      : isUsageAsked && style.chance('null usage', 40)
        ? { usage: null }
        : {}),
  }))
  return [
    ...data.map((chunk) => ({ data: JSON.stringify(chunk) })),
    ...(isUsageAsked && !isUsageLast ? [{ data: JSON.stringify({ ...top, choices: [], usage }) }] : []),
    { data: '[DONE]' },
  ]
}

function laneDeltas(dice: Dice, lane: Lane): { deltas: readonly Delta[]; isLegacy: boolean } {
  const calls = lane.pieces.filter((piece): piece is Call => piece.kind === 'call')
  const isLegacy = calls.length === 1 && dice.chance('legacy', 15)
  const isRouted = dice.chance('as OpenRouter', isSigned(lane) ? 80 : 15)
  const thought = isRouted ? 'reasoning' : dice.one('thought', ['reasoning_content', 'reasoning'])
  const steps: Delta[] = dice.chance('no role', 10)
    ? []
    : [{ role: 'assistant', ...dice.one('first', [{}, { content: '' }, { content: null }]) }]
  const isParallel = dice.chance('calls at once', 25)
  for (const [at, piece] of lane.pieces.entries()) {
    if (piece.kind === 'opaque') continue
    if (isText(piece)) {
      const key = piece.kind === 'thought' ? thought : piece.kind === 'refusal' ? 'refusal' : 'content'
      steps.push(...split(dice.in(`split ${at}`), piece.text).map((text) => ({ [key]: text })))
      // Clients put thoughts together, so a signature has a place among them only if it is behind them all.
      if (isRouted && at === 0 && isSigned(lane) && 'signature' in piece)
        steps.push({ content: '', [DETAILS]: [{ type: 'reasoning.encrypted', data: piece.signature }] })
    } else if (!isParallel) steps.push(...callDeltas(dice.in(`call ${at}`), piece, calls.indexOf(piece), isLegacy))
  }
  // Calls that grow in turns.
  const growing = isParallel
    ? calls.map((call, index) => callDeltas(dice.in(`parallel ${index}`), call, index, isLegacy))
    : []
  for (let at = 0; growing.some((list) => at < list.length); at++)
    steps.push(...growing.flatMap((list) => list.slice(at, at + 1)))
  const unknown = dice.chance('unknown', 8)
  const deltas = (isRouted ? steps : joined(dice.in('joined'), steps)).map((delta, at) =>
    unknown && dice.chance(`unknown ${at}`, 30) ? { ...delta, x_delta: at } : delta,
  )
  return { deltas: isRouted ? deltas.map(routed) : deltas, isLegacy }
}

const DETAILS = 'reasoning_details'

/** The first piece is the only thought, and signed. */
const isSigned = ({ pieces: [first, ...more] }: Lane): boolean =>
  first?.kind === 'thought' && first.signature !== undefined && more.every(({ kind }) => kind !== 'thought')

/** OpenRouter says the role in each chunk, and repeats thoughts as details. */
function routed(delta: Delta): Delta {
  const { reasoning, ...more } = delta
  const said =
    reasoning === undefined ? {} : { reasoning, [DETAILS]: [{ type: 'reasoning.text', text: reasoning, format: null }] }
  return { role: 'assistant', content: '', ...said, ...more }
}

function callDeltas(dice: Dice, { id, name, args }: Call, index: number, isLegacy: boolean): readonly Delta[] {
  const [first = '', ...rest] = split(dice, args)
  const begins = dice.chance('arguments at once', 50)
  const pieces = begins ? rest : [first, ...rest]
  const start = { name, arguments: begins ? first : '' }
  if (isLegacy) return [{ function_call: start }, ...pieces.map((more) => ({ function_call: { arguments: more } }))]
  return [
    { tool_calls: [{ index, id, type: 'function', function: start }] },
    ...pieces.map((more) => ({ tool_calls: [{ index, function: { arguments: more } }] })),
  ]
}

/** A frame may say several things: in this order, so that a reader sees them in the order in which they were said. */
const ORDER = ['role', 'reasoning_content', 'reasoning', 'content', 'refusal', 'tool_calls', 'function_call']

const rank = (delta: Delta, of: 'first' | 'last'): number => {
  const ranks = Object.keys(delta).map((key) => ORDER.indexOf(key))
  return of === 'first' ? Math.min(...ranks) : Math.max(...ranks)
}

function joined(dice: Dice, steps: readonly Delta[]): readonly Delta[] {
  const percent = dice.one('how often', [0, 10, 40])
  const out: Delta[] = []
  for (const [at, step] of steps.entries()) {
    const last = out.at(-1)
    if (last === undefined || !dice.chance(at, percent)) out.push(step)
    else if (rank(last, 'last') < rank(step, 'first') || isRole(last)) out.push({ ...out.pop(), ...step })
    else if (areOtherCalls(last, step))
      out.push({ ...out.pop(), tool_calls: [...objectsIn(last, 'tool_calls'), ...objectsIn(step, 'tool_calls')] })
    else out.push(step)
  }
  return out
}

const isRole = (delta: Delta): boolean =>
  delta['role'] !== undefined && Object.keys(delta).every((key) => key === 'role' || (key === 'content' && !delta[key]))

function areOtherCalls(last: Delta, step: Delta): boolean {
  const indexes = (delta: Delta): unknown[] => objectsIn(delta, 'tool_calls').map(({ index }) => index)
  return (
    indexes(last).length > 0 &&
    indexes(step).length > 0 &&
    !indexes(step).some((index) => indexes(last).includes(index))
  )
}

type Chunk = readonly { readonly lane: number; readonly delta: Delta; readonly finish: string | null }[]

function withFinish(
  dice: Dice,
  deltas: readonly Delta[],
  finish: string,
): readonly { delta: Delta; finish: string | null }[] {
  const open = deltas.map((delta) => ({ delta, finish: null }))
  const last = deltas.at(-1)
  return last !== undefined && dice.chance('finish with the last delta', 25)
    ? [...open.slice(0, -1), { delta: last, finish }]
    : [...open, { delta: {}, finish }]
}

/** The choices one after the other, in turns, or together in one chunk. */
function interleaved(
  dice: Dice,
  lanes: readonly (readonly { delta: Delta; finish: string | null }[])[],
): readonly Chunk[] {
  const numbered = lanes.map((list, lane) => list.map((one) => ({ lane, ...one })))
  if (lanes.length === 1 || dice.int('lanes', 3) === 0) return numbered.flat().map((one) => [one])
  const rounds = times(Math.max(...numbered.map(({ length }) => length)), (at) =>
    numbered.flatMap((list) => list.slice(at, at + 1)),
  )
  return dice.int('lanes', 3) === 1 ? rounds.flat().map((one) => [one]) : rounds
}

function finishOf(dice: Dice, lane: Lane, isLegacy: boolean): string {
  if (lane.isShort) return 'length'
  if (hasCalls(lane)) return isLegacy ? 'function_call' : dice.one('finish', ['tool_calls', 'tool_calls', 'stop'])
  return 'stop'
}

function whole(answer: Answer, attempt: number): Json {
  const choices = answer.lanes.map((lane, index) => {
    const of = (kind: string): string =>
      lane.pieces.flatMap((piece) => (isText(piece) && piece.kind === kind ? [piece.text] : [])).join('')
    const calls = lane.pieces.filter((piece): piece is Call => piece.kind === 'call')
    const message = {
      role: 'assistant',
      content: of('text') || null,
      ...(of('thought') === '' ? {} : { reasoning_content: of('thought') }),
      ...(of('refusal') === '' ? {} : { refusal: of('refusal') }),
      ...(calls.length === 0
        ? {}
        : {
            tool_calls: calls.map(({ id, name, args }) => ({
              id,
              type: 'function',
              function: { name, arguments: args },
            })),
          }),
    }
    return { index, message, finish_reason: lane.isShort ? 'length' : hasCalls(lane) ? 'tool_calls' : 'stop' }
  })
  const [prompt_tokens, completion_tokens] = answer.usage
  const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
  return { id: `chatcmpl-${attempt}`, object: 'chat.completion', created: 1 + attempt, model: 'm', choices, usage }
}

function unfolded({ id, created, model, choices, usage }: Json): readonly Frame[] {
  const top = { id, created, model }
  const chunks = objectsIn({ choices }, 'choices').map((choice) => {
    const message = objectIn(choice, 'message')
    const calls = objectsIn(message, 'tool_calls').map((call, index) => ({ index, ...call }))
    return {
      ...top,
      choices: [
        { index: choice['index'], delta: { ...message, tool_calls: calls }, finish_reason: choice['finish_reason'] },
      ],
    }
  })
  return [...chunks, { ...top, choices: [], usage }]
    .map((chunk) => ({ data: JSON.stringify(chunk) }))
    .concat({ data: '[DONE]' })
}

/** What a server sends that continues a text, until it says the whole answer. */
function continued({ pieces, finish, usage }: Said, text: string): readonly Frame[] {
  const delta = (delta: Json, finish_reason: unknown = null): Json => ({
    id: 'more',
    created: 9,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  })
  const calls = pieces.flatMap((piece) => (piece.kind === 'call' ? [piece] : []))
  const chunks = [
    delta({ role: 'assistant', content: '' }),
    ...(text.match(/\s*\S+\s*$|\s*\S+|\s+/g) ?? []).map((content) => delta({ content })),
    ...calls.map(({ id, name, args }, index) =>
      delta({ tool_calls: [{ index, id: id || 'call_9', type: 'function', function: { name, arguments: args } }] }),
    ),
    delta({}, finish[0] === 'function_call' ? 'tool_calls' : finish[0]),
    ...(usage === undefined ? [] : [{ id: 'more', created: 9, model: 'm', choices: [], usage }]),
  ]
  return [...chunks.map((chunk) => ({ data: JSON.stringify(chunk) })), { data: '[DONE]' }]
}

// ---- reading ----

type Open = { id: string; name: string; args: string }

/** As OpenAI's client does: what belongs to one choice is put together by its kind, calls by their index. */
function read(list: readonly Frame[]): Said {
  const pieces = new SaidPieces()
  const calls = new Map<number, Map<number | 'legacy', Open>>()
  const finish: unknown[] = []
  const problems: string[] = []
  const identities = new Set<string>()
  const lanes = new Set<number>()
  const roles = new Map<number, 'first' | 'over'>()
  let [usage, isDone, isError]: [unknown, boolean, boolean] = [undefined, false, false]
  for (const { data } of list) {
    if (isDone) problems.push(`after [DONE]: ${data.slice(0, 60)}`)
    if (data === '[DONE]') {
      isDone = true
      continue
    }
    const json = parsed(data)
    if (json['error'] != null) {
      isError = true
      continue
    }
    if (json['id'] !== '') identities.add(JSON.stringify([json['id'], json['model'], json['created']]))
    if (json['usage'] != null) usage = json['usage']
    for (const choice of objectsIn(json, 'choices')) {
      const lane = Number(choice['index'] ?? 0)
      lanes.add(lane)
      const delta = objectIn(choice, 'delta')
      if (finish[lane] !== undefined && Object.entries(delta).some(([key, value]) => key !== 'role' && value !== ''))
        problems.push(`a delta after the finish reason of ${lane}`)
      // Some servers say it in each chunk. It must not come again.
      if (delta['role'] === undefined && roles.has(lane) && Object.keys(delta).length > 0) roles.set(lane, 'over')
      else if (delta['role'] !== undefined && roles.get(lane) === 'over') problems.push(`two roles in choice ${lane}`)
      else if (delta['role'] !== undefined) roles.set(lane, 'first')
      for (const { data: signature } of objectsIn(delta, DETAILS))
        if (typeof signature === 'string') pieces.sign(lane, signature)
      pieces.text(lane, 'thought', textIn(delta, 'reasoning_content') || textIn(delta, 'reasoning'))
      pieces.text(lane, 'text', textIn(delta, 'content'))
      pieces.text(lane, 'refusal', textIn(delta, 'refusal'))
      const own = calls.get(lane) ?? new Map<number | 'legacy', Open>()
      calls.set(lane, own)
      for (const call of objectsIn(delta, 'tool_calls'))
        grow(own, Number(call['index'] ?? 0), textIn(call, 'id'), objectIn(call, 'function'), problems)
      if (delta['function_call'] != null) grow(own, 'legacy', '', objectIn(delta, 'function_call'), problems)
      if (choice['finish_reason'] != null) finish[lane] = choice['finish_reason']
    }
  }
  if (identities.size > 1) problems.push(`several ids: ${[...identities].join(' ')}`)
  for (const [lane, own] of calls)
    for (const [, { id, name, args }] of [...own].toSorted(([a], [b]) => Number(a) - Number(b)))
      pieces.call(lane, id, name, args)
  const isProven =
    identities.size > 0 && lanes.size === finish.length && [...lanes].every((lane) => finish[lane] !== undefined)
  const isComplete = isDone && isProven
  return {
    pieces: pieces.all(['thought', 'text', 'refusal', 'call']),
    signatures: pieces.signatures,
    finish,
    usage,
    isProven,
    isComplete,
    isError,
    problems,
  }
}

function grow(
  calls: Map<number | 'legacy', Open>,
  index: number | 'legacy',
  id: string,
  called: Json,
  problems: string[],
): void {
  const known = calls.get(index)
  const [name, args] = [textIn(called, 'name'), textIn(called, 'arguments')]
  if (known === undefined) {
    if (name === '' || (id === '' && index !== 'legacy')) problems.push(`call ${index} begins without an id or a name`)
    calls.set(index, { id, name, args })
    return
  }
  if (id !== '' && id !== known.id) problems.push(`call ${index} is both ${known.id} and ${id}`)
  if (name !== '') known.name += name
  known.args += args
}
