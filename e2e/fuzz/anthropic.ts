/** Anthropic's messages: makes streams of every valid form, and reads what a client gets. */
import { type Answer, hasCalls, type Piece, split } from './answer.ts'
import type { Api } from './api.ts'
import type { Frame, Json } from './case.ts'
import type { Dice } from './dice.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import { type Said, SaidPieces } from './said.ts'

export const anthropic: Api = {
  name: 'anthropic-messages',
  abilities: {
    kinds: ['text', 'text', 'text', 'call', 'call', 'thought', 'thought', 'opaque'],
    lanesMax: 1,
    signed: ['thought'],
  },
  request: (dice) => ({
    path: '/v1/messages',
    body: {
      model: 'm',
      stream: true,
      max_tokens: 99,
      messages: [{ role: 'user', content: 'x' }],
      ...(dice.chance('tools', 50) ? { tools: [{ name: 'ls', input_schema: { type: 'object' } }] } : {}),
    },
  }),
  frames,
  whole,
  unfolded,
  read,
  error: (dice) =>
    event({ type: 'error', error: { type: dice.one('type', ['api_error', 'overloaded_error']), message: 'it broke' } }),
}

// ---- making ----

const event = (json: Json): Frame => ({ event: textIn(json, 'type'), data: JSON.stringify(json) })

const PING = { type: 'ping' }

function frames(dice: Dice, answer: Answer, attempt: number): readonly Frame[] {
  const style = dice.in('style')
  const [input_tokens, output_tokens] = answer.usage
  const pieces = answer.lanes[0]?.pieces ?? []
  const message = {
    id: `msg_${attempt}`,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens, output_tokens: 1 },
    ...(style.chance('unknown', 15) ? { x_unknown: [1] } : {}),
  }
  const blocks = pieces.flatMap((piece, index) => blockEvents(dice.in(`block ${index}`), piece, index))
  const last = {
    type: 'message_delta',
    delta: { stop_reason: stopReason(answer), stop_sequence: null },
    usage: { output_tokens },
  }
  const all = [{ type: 'message_start', message }, ...blocks, last, { type: 'message_stop' }]
  const pings = style.chance('pings', 30)
  return all.flatMap((json, at) => [
    ...(pings && at > 0 && style.chance(`ping ${at}`, 20) ? [event(PING)] : []),
    event(json),
  ])
}

function blockEvents(dice: Dice, piece: Piece, index: number): readonly Json[] {
  const start = (content_block: Json): Json => ({
    type: 'content_block_start',
    index,
    content_block,
    ...(dice.chance('unknown', 5) ? { x_block: index } : {}),
  })
  const delta = (made: Json): Json => ({ type: 'content_block_delta', index, delta: made })
  const stop = { type: 'content_block_stop', index }
  if (piece.kind === 'opaque') return [start({ type: 'redacted_thinking', data: piece.id }), stop]
  if (piece.kind === 'call') {
    const { id, name, args } = piece
    if (dice.chance('input at once', 10))
      return [start({ type: 'tool_use', id, name, input: JSON.parse(args) as unknown }), stop]
    const empty = dice.chance('empty delta', 50) ? [delta({ type: 'input_json_delta', partial_json: '' })] : []
    return [
      start({ type: 'tool_use', id, name, input: {} }),
      ...empty,
      ...split(dice, args).map((partial_json) => delta({ type: 'input_json_delta', partial_json })),
      stop,
    ]
  }
  const key = piece.kind === 'thought' ? 'thinking' : 'text'
  const texts = split(dice, piece.text)
  const isAtStart = dice.chance('text at the start', 12)
  const [first = '', ...rest] = isAtStart ? texts : ['', ...texts]
  return [
    start({ type: key, [key]: first, ...(key === 'thinking' ? { signature: '' } : {}) }),
    ...rest.map((text) => delta({ type: `${key}_delta`, [key]: text })),
    ...(key === 'thinking' ? [delta({ type: 'signature_delta', signature: piece.signature ?? 'sig' })] : []),
    stop,
  ]
}

function stopReason({ lanes: [lane] }: Answer): string {
  if (lane === undefined) return 'end_turn'
  return lane.isShort ? 'max_tokens' : hasCalls(lane) ? 'tool_use' : 'end_turn'
}

function whole(answer: Answer, attempt: number): Json {
  const [input_tokens, output_tokens] = answer.usage
  const content = (answer.lanes[0]?.pieces ?? []).map((piece): Json => {
    if (piece.kind === 'opaque') return { type: 'redacted_thinking', data: piece.id }
    if (piece.kind === 'call')
      return { type: 'tool_use', id: piece.id, name: piece.name, input: JSON.parse(piece.args) as unknown }
    if (piece.kind === 'thought') return { type: 'thinking', thinking: piece.text, signature: piece.signature ?? 'sig' }
    return { type: 'text', text: piece.text }
  })
  const usage = { input_tokens, output_tokens }
  return {
    id: `msg_${attempt}`,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content,
    stop_reason: stopReason(answer),
    stop_sequence: null,
    usage,
  }
}

function unfolded({ content, stop_reason, usage, ...message }: Json): readonly Frame[] {
  const blocks = objectsIn({ content }, 'content').flatMap((content_block, index) => [
    { type: 'content_block_start', index, content_block },
    { type: 'content_block_stop', index },
  ])
  const last = { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage }
  return [
    { type: 'message_start', message: { ...message, content: [], usage } },
    ...blocks,
    last,
    { type: 'message_stop' },
  ].map(event)
}

// ---- reading ----

type Block = { readonly index: number; readonly type: string; text: string; json: string; signature: string }

/** As Anthropic's client does: one block at a time, each starts and ends once, numbers have no holes. */
function read(list: readonly Frame[]): Said {
  const pieces = new SaidPieces()
  const problems: string[] = []
  let [starts, next, isOver, isError]: [number, number, boolean, boolean] = [0, 0, false, false]
  let open: Block | undefined
  let [stop, usage]: unknown[] = []
  for (const { event: name, data } of list) {
    const json = parsed(data)
    const type = textIn(json, 'type')
    if (name !== type) problems.push(`the event ${name} has the type ${type}`)
    if (isOver && type !== 'ping') problems.push(`${type} after message_stop`)
    if (starts === 0 && type !== 'message_start' && type !== 'ping' && type !== 'error')
      problems.push(`${type} before message_start`)
    switch (type) {
      case 'error':
        isError = true
        break
      case 'message_start':
        if (++starts > 1) problems.push('a second message_start')
        break
      case 'content_block_start': {
        const block = objectIn(json, 'content_block')
        if (open !== undefined) problems.push(`block ${String(json['index'])} begins inside block ${open.index}`)
        if (json['index'] !== next) problems.push(`block ${String(json['index'])} instead of ${next}`)
        const type = textIn(block, 'type')
        open = { index: next++, type, text: textIn(block, type), json: '', signature: textIn(block, 'signature') }
        if (open.type === 'redacted_thinking') pieces.opaque(0, textIn(block, 'data'))
        else if (open.type === 'tool_use') {
          const input = objectIn(block, 'input')
          if (Object.keys(input).length > 0) open.json = JSON.stringify(input)
          pieces.call(0, textIn(block, 'id'), textIn(block, 'name'), '')
        } else pieces.text(0, type === 'thinking' ? 'thought' : 'text', open.text)
        break
      }
      case 'content_block_delta': {
        const delta = objectIn(json, 'delta')
        if (open === undefined || json['index'] !== open.index)
          problems.push(`a delta for block ${String(json['index'])}, which is not open`)
        else if (DELTAS[textIn(delta, 'type')] !== open.type)
          problems.push(`${textIn(delta, 'type')} in a block of ${open.type}`)
        else if (open.type === 'tool_use') open.json += textIn(delta, 'partial_json')
        else if (delta['type'] === 'signature_delta') sign(open, textIn(delta, 'signature'), problems)
        else {
          open.text += textIn(delta, open.type)
          pieces.text(0, open.type === 'thinking' ? 'thought' : 'text', textIn(delta, open.type))
        }
        break
      }
      case 'content_block_stop':
        if (open === undefined || json['index'] !== open.index)
          problems.push(`block ${String(json['index'])} ends, which is not open`)
        if ((open?.type === 'text' || open?.type === 'thinking') && open.text === '' && open.signature === '')
          problems.push(`empty block ${open.index}`) // Anthropic refuses a request that has one
        if (open?.type === 'tool_use') pieces.completeCall(0, open.json === '' ? '{}' : open.json)
        if (open !== undefined && open.signature !== '') pieces.sign(0, open.signature)
        open = undefined
        break
      case 'message_delta':
        if (open !== undefined) problems.push(`the end of the message inside block ${open.index}`)
        stop = objectIn(json, 'delta')['stop_reason']
        usage = json['usage']
        break
      case 'message_stop':
        isOver = true
        break
      default:
        break
    }
  }
  const isComplete = isOver && stop !== undefined
  return {
    pieces: pieces.all(),
    signatures: pieces.signatures,
    finish: [stop ?? null],
    usage,
    isProven: isComplete,
    isComplete,
    isError,
    problems,
  }
}

function sign(open: Block, signature: string, problems: string[]): void {
  if (open.signature !== '') problems.push(`block ${open.index} is signed twice`)
  open.signature = signature
}

const DELTAS: Readonly<Record<string, string>> = {
  text_delta: 'text',
  thinking_delta: 'thinking',
  signature_delta: 'thinking',
  input_json_delta: 'tool_use',
}
