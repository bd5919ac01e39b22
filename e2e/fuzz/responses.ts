/** OpenAI's Responses: makes streams of every valid form, and reads what a client gets. */
import { type Answer, type Call, isText, type Piece, split, type Text } from './answer.ts'
import type { Api } from './api.ts'
import type { Frame, Json } from './case.ts'
import type { Dice } from './dice.ts'
import { objectIn, objectsIn, parsed, textIn } from './json.ts'
import type { Said, SaidPiece } from './said.ts'

export const responses: Api = {
  name: 'openai-responses',
  abilities: {
    kinds: ['text', 'text', 'text', 'call', 'call', 'thought', 'thought', 'refusal', 'opaque'],
    lanesMax: 1,
    signed: [],
  },
  request: (dice) => ({
    path: '/v1/responses',
    body: {
      model: 'm',
      stream: true,
      input: 'x',
      ...(dice.chance('tools', 50)
        ? { tools: [{ type: 'function', name: 'ls', parameters: { type: 'object' } }] }
        : {}),
      ...(dice.chance('background', 15) ? { background: true } : {}),
    },
  }),
  frames,
  whole: (answer, attempt) => finalOf(answer, attempt, itemsOf(answer, attempt)),
  unfolded,
  read,
  error: (dice) =>
    dice.int('how', 2) === 0
      ? event({ type: 'error', code: 'server_error', message: 'it broke', param: null })
      : event({
          type: 'response.failed',
          response: {
            id: 'resp_0',
            status: 'failed',
            error: { code: 'server_error', message: 'it broke' },
            output: [],
          },
        }),
}

// ---- making ----

const event = (json: Json): Frame => ({ event: textIn(json, 'type'), data: JSON.stringify(json) })

type Item = { readonly item: Json; readonly pieces: readonly Piece[] }

/** Neighbouring texts are the parts of one message, unless the dice say otherwise. */
function itemsOf({ lanes: [lane] }: Answer, attempt: number, dice?: Dice): readonly Item[] {
  const groups: Piece[][] = []
  for (const [at, piece] of (lane?.pieces ?? []).entries()) {
    const last = groups.at(-1)
    const isPart = last !== undefined && isPartOfMessage(piece) && isPartOfMessage(last[0])
    if (isPart && dice?.chance(`own message ${at}`, 30) !== true) last.push(piece)
    else groups.push([piece])
  }
  return groups.map((pieces, at) => ({ item: itemOf(pieces, `${attempt}_${at}`, dice), pieces }))
}

type MessagePart = Text & { readonly kind: 'text' | 'refusal' }

const isPartOfMessage = (piece: Piece | undefined): piece is MessagePart =>
  piece?.kind === 'text' || piece?.kind === 'refusal'

const partOf = ({ kind, text }: Text): Json =>
  kind === 'refusal' ? { type: 'refusal', refusal: text } : { type: 'output_text', text, annotations: [] }

function itemOf(pieces: readonly Piece[], id: string, dice?: Dice): Json {
  const [first] = pieces
  const unknown = dice?.chance(`unknown ${id}`, 8) === true ? { x_item: id } : {}
  if (first === undefined || isPartOfMessage(first))
    return {
      id: `msg_${id}`,
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content: pieces.filter(isPartOfMessage).map(partOf),
      ...unknown,
    }
  if (first.kind === 'thought')
    return {
      id: `rs_${id}`,
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: first.text }],
      encrypted_content: `secret ${id}`,
      ...unknown,
    }
  if (first.kind === 'opaque')
    return { id: `ws_${id}`, type: 'web_search_call', status: 'completed', action: { type: 'search', query: first.id } }
  if (first.kind !== 'call') return {}
  const call = { id: `fc_${id}`, status: 'completed', call_id: first.id, name: first.name, ...unknown }
  return dice?.chance(`custom ${id}`, 15) === true
    ? { ...call, type: 'custom_tool_call', input: first.args }
    : { ...call, type: 'function_call', arguments: first.args }
}

function finalOf(answer: Answer, attempt: number, items: readonly Item[]): Json {
  const [input_tokens, output_tokens] = answer.usage
  const isShort = answer.lanes[0]?.isShort === true
  return {
    ...begun(attempt),
    status: isShort ? 'incomplete' : 'completed',
    ...(isShort ? { incomplete_details: { reason: 'max_output_tokens' } } : {}),
    output: items.map(({ item }) => item),
    usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens },
  }
}

const begun = (attempt: number): Json => ({
  id: `resp_${attempt}`,
  object: 'response',
  created_at: 100 + attempt,
  status: 'in_progress',
  model: 'm',
  output: [],
})

function frames(dice: Dice, answer: Answer, attempt: number, request: Json): readonly Frame[] {
  const style = dice.in('style')
  const items = itemsOf(answer, attempt, style)
  const final = finalOf(answer, attempt, items)
  const isBackground = request['background'] === true
  // Some servers number nothing and leave indexes out; which only works for messages of one part.
  const isBare = !isBackground && style.chance('bare', 8) && items.every(({ pieces }) => pieces.length === 1)
  const lists = items.map((item, index) => itemEvents(dice.in(`item ${index}`), item, index))
  const messages = items.filter(({ item }) => item['type'] === 'message').length
  const isMixed = !isBare && messages < 2 && style.chance('items at once', 8)
  const body = isMixed ? inTurns(dice.in('turns'), lists) : lists.flat()
  const response = begun(attempt)
  const all: Json[] = [
    { type: 'response.created', response },
    ...(style.chance('queued', 5) ? [{ type: 'response.queued', response: { ...response, status: 'queued' } }] : []),
    ...(style.chance('no progress', 15) ? [] : [{ type: 'response.in_progress', response }]),
    ...body,
    {
      type: `response.${textIn(final, 'status')}`,
      response: style.chance('empty output', 5) ? { ...final, output: [] } : final,
    },
  ]
  const pings = style.chance('pings', 10)
  const withPings = all.flatMap((json, at) =>
    pings && at > 2 && style.chance(`ping ${at}`, 20) ? [{ type: 'response.in_progress', response }, json] : [json],
  )
  return withPings.map((json, sequence_number) => event(isBare ? bare(json) : { ...json, sequence_number }))
}

function bare({ output_index: _output, content_index: _content, summary_index: _summary, ...json }: Json): Json {
  return json
}

/** The items one after the other as they began, their later events mixed. */
function inTurns(dice: Dice, lists: readonly (readonly Json[])[]): readonly Json[] {
  const left = lists.map((list) => [...list])
  const out: Json[] = []
  let begun = 0
  for (let at = 0; left.some(({ length }) => length > 0); at++) {
    const ready = left.slice(0, begun + 1).flatMap((list, index) => (list.length > 0 ? [index] : []))
    const index = dice.one(at, ready.length > 0 ? ready : [left.findIndex(({ length }) => length > 0)])
    if (index === begun) begun++
    const json = left[index]?.shift()
    if (json !== undefined) out.push(json)
  }
  return out
}

function itemEvents(dice: Dice, { item, pieces }: Item, output_index: number): readonly Json[] {
  const at = { item_id: item['id'], output_index }
  const [first] = pieces
  const status = item['status'] === undefined ? {} : { status: 'in_progress' }
  const added = (empty: Json): Json => ({
    type: 'response.output_item.added',
    output_index,
    item: { ...item, ...status, ...empty },
  })
  const done = { type: 'response.output_item.done', output_index, item }
  const fewer = dice.chance('fewer events', 12)
  switch (item['type']) {
    case 'message':
      return [
        added({ content: [] }),
        ...pieces
          .filter(isPartOfMessage)
          .flatMap((piece, index) =>
            partEvents(dice.in(`part ${index}`), piece, { ...at, content_index: index }, fewer),
          ),
        done,
      ]
    case 'reasoning': {
      const text = first !== undefined && isText(first) ? first.text : ''
      const where = { ...at, summary_index: 0 }
      const { encrypted_content: _secret, ...open } = item
      return [
        { type: 'response.output_item.added', output_index, item: { ...open, summary: [] } },
        ...(fewer
          ? []
          : [{ type: 'response.reasoning_summary_part.added', ...where, part: { type: 'summary_text', text: '' } }]),
        ...split(dice, text).map((delta) => ({ type: 'response.reasoning_summary_text.delta', ...where, delta })),
        ...(fewer
          ? []
          : [
              { type: 'response.reasoning_summary_text.done', ...where, text },
              { type: 'response.reasoning_summary_part.done', ...where, part: { type: 'summary_text', text } },
            ]),
        done,
      ]
    }
    case 'web_search_call':
      return [
        added({}),
        ...(fewer
          ? []
          : ['in_progress', 'searching', 'completed'].map((name) => ({
              type: `response.web_search_call.${name}`,
              ...at,
            }))),
        done,
      ]
    default:
      return first?.kind === 'call'
        ? [
            added(item['type'] === 'function_call' ? { arguments: '' } : { input: '' }),
            ...callEvents(dice, first, item, at, fewer),
            done,
          ]
        : []
  }
}

function callEvents(dice: Dice, { args, name }: Call, item: Json, at: Json, fewer: boolean): readonly Json[] {
  const isCustom = item['type'] === 'custom_tool_call'
  const type = isCustom ? 'response.custom_tool_call_input' : 'response.function_call_arguments'
  const end = isCustom ? { input: args } : { name, arguments: args }
  return [
    ...split(dice, args).map((delta) => ({ type: `${type}.delta`, ...at, delta })),
    ...(fewer ? [] : [{ type: `${type}.done`, ...at, ...end }]),
  ]
}

function partEvents(dice: Dice, piece: Text, at: Json, fewer: boolean): readonly Json[] {
  const isRefusal = piece.kind === 'refusal'
  const [key, name] = isRefusal ? ['refusal', 'response.refusal'] : ['text', 'response.output_text']
  const part = partOf(piece)
  const more = isRefusal ? {} : { logprobs: [] }
  const isPadded = dice.chance('padded', 20)
  return [
    ...(fewer ? [] : [{ type: 'response.content_part.added', ...at, part: { ...part, [key]: '' } }]),
    ...split(dice, piece.text).map((delta, index) => ({
      type: `${name}.delta`,
      ...at,
      delta,
      ...more,
      ...(isPadded ? { obfuscation: 'x'.repeat(1 + (index % 5)) } : {}),
    })),
    ...(fewer
      ? []
      : [
          { type: `${name}.done`, ...at, [key]: piece.text, ...more },
          { type: 'response.content_part.done', ...at, part },
        ]),
  ]
}

function unfolded(response: Json): readonly Frame[] {
  const items = objectsIn(response, 'output').flatMap((item, output_index) => [
    {
      type: 'response.output_item.added',
      output_index,
      item: item['type'] === 'message' ? { ...item, content: [] } : item,
    },
    ...(item['type'] === 'message'
      ? objectsIn(item, 'content').map((part, content_index) =>
          deltaOf(part, { item_id: item['id'], output_index, content_index }),
        )
      : []),
    { type: 'response.output_item.done', output_index, item },
  ])
  return [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    ...items,
    { type: `response.${textIn(response, 'status')}`, response },
  ].map(event)
}

const deltaOf = (part: Json, at: Json): Json =>
  part['type'] === 'refusal'
    ? { type: 'response.refusal.delta', ...at, delta: part['refusal'] }
    : { type: 'response.output_text.delta', ...at, delta: part['text'] }

// ---- reading ----

type ReadItem = {
  readonly index: number
  id: string
  type: string
  parts: Map<number, Part>
  args: string
  readonly added: Json
  done: Json | undefined
}
type Part = { kind: 'text' | 'refusal'; text: string }

/**
 * As OpenAI's client does: items by their index, parts by theirs. What the `done` events and the final object say has to be what was
 * streamed.
 */
function read(list: readonly Frame[]): Said {
  const problems: string[] = []
  const items: ReadItem[] = []
  const numbers: unknown[] = []
  let [created, isError]: [number, boolean] = [0, false]
  let final: Json | undefined
  let id: unknown
  const same = (what: string, got: unknown, wanted: unknown): void => {
    if (JSON.stringify(got) !== JSON.stringify(wanted))
      problems.push(`${what} is ${JSON.stringify(got)}, but ${JSON.stringify(wanted)} was streamed`)
  }
  for (const { event: name, data } of list) {
    const json = parsed(data)
    const type = textIn(json, 'type')
    if (name !== type) problems.push(`the event ${name} has the type ${type}`)
    numbers.push(json['sequence_number'])
    if (final !== undefined) problems.push(`${type} after the end`)
    const response = objectIn(json, 'response')
    if (response['id'] !== undefined) {
      if (id !== undefined && response['id'] !== id && type !== 'response.failed')
        problems.push(`${type} is of ${JSON.stringify(response['id'])} instead of ${JSON.stringify(id)}`)
      id ??= response['id']
    }
    if (type === 'response.created' && ++created > 1) problems.push('a second response.created')
    if (type === 'error' || type === 'response.failed') isError = true
    else if (type === 'response.completed' || type === 'response.incomplete') final = response
    else if (type === 'response.output_item.added') begin(items, json, problems)
    else if (type === 'response.output_item.done') {
      const open = find(items, json, textIn(objectIn(json, 'item'), 'id'))
      if (open === undefined || open.done !== undefined)
        problems.push(`an item is done that is not open: ${data.slice(0, 200)}`)
      else complete(open, objectIn(json, 'item'), same)
    } else if (json['item_id'] !== undefined)
      inside(find(items, json, textIn(json, 'item_id')), type, json, problems, same)
  }
  if (numbers.some((number) => number !== undefined) && numbers.some((number, at) => number !== at))
    problems.push(`sequence numbers ${numbers.join(' ').slice(0, 300)}`)
  if (final !== undefined) {
    for (const { id: open } of items.filter(({ done }) => done === undefined)) problems.push(`item ${open} never ended`)
    const output = objectsIn(final, 'output')
    if (output.length > 0 || items.length === 0)
      same(
        'the final output',
        output,
        items.map(({ done }) => done),
      )
  }
  const status = final?.['status'] ?? null
  return {
    pieces: items.flatMap(piecesOf),
    signatures: [],
    finish: [status],
    usage: final?.['usage'],
    isProven: final !== undefined,
    isComplete: final !== undefined,
    isError,
    problems,
  }
}

type Same = (what: string, got: unknown, wanted: unknown) => void

function begin(items: ReadItem[], json: Json, problems: string[]): void {
  const item = objectIn(json, 'item')
  if (json['output_index'] !== undefined && json['output_index'] !== items.length)
    problems.push(
      `item ${textIn(item, 'id')} has the index ${JSON.stringify(json['output_index'])} instead of ${items.length}`,
    )
  if (items.some(({ id }) => id === item['id'])) problems.push(`two items ${textIn(item, 'id')}`)
  if (objectsIn(item, 'content').length > 0) problems.push(`item ${textIn(item, 'id')} begins with content`)
  items.push({
    index: items.length,
    id: textIn(item, 'id'),
    type: textIn(item, 'type'),
    parts: new Map(),
    args: '',
    added: item,
    done: undefined,
  })
}

/** By its id; the index has to agree. */
function find(items: readonly ReadItem[], json: Json, id: string): ReadItem | undefined {
  const found = items.find((item) => item.id === id)
  return json['output_index'] === undefined || found?.index === json['output_index'] ? found : undefined
}

function inside(item: ReadItem | undefined, type: string, json: Json, problems: string[], same: Same): void {
  if (item === undefined || item.done !== undefined) {
    problems.push(`${type} for an item that is not open: ${JSON.stringify(json).slice(0, 200)}`)
    return
  }
  const index = Number(json['content_index'] ?? json['summary_index'] ?? 0)
  const kind = type.startsWith('response.refusal') || objectIn(json, 'part')['type'] === 'refusal' ? 'refusal' : 'text'
  const known = item.parts.get(index)
  const part = known ?? { kind, text: '' }
  if (known === undefined && /(?:text|refusal|part)\.(?:delta|added)$/.test(type)) item.parts.set(index, part)
  const key = kind === 'refusal' ? 'refusal' : 'text'
  switch (type) {
    case 'response.output_text.delta':
    case 'response.refusal.delta':
    case 'response.reasoning_summary_text.delta':
      if (part.kind !== kind) problems.push(`${type} in a part of ${part.kind}`)
      part.text += textIn(json, 'delta')
      break
    case 'response.content_part.added':
    case 'response.reasoning_summary_part.added':
      if (known !== undefined) problems.push(`part ${index} of ${item.id} begins twice`)
      break
    case 'response.output_text.done':
    case 'response.refusal.done':
    case 'response.reasoning_summary_text.done':
      same(`${type} of ${item.id}`, json[key], part.text)
      break
    case 'response.content_part.done':
    case 'response.reasoning_summary_part.done':
      same(`${type} of ${item.id}`, objectIn(json, 'part')[key], part.text)
      break
    case 'response.function_call_arguments.delta':
    case 'response.custom_tool_call_input.delta':
      item.args += textIn(json, 'delta')
      break
    case 'response.function_call_arguments.done':
      same(`${type} of ${item.id}`, json['arguments'], item.args)
      break
    case 'response.custom_tool_call_input.done':
      same(`${type} of ${item.id}`, json['input'], item.args)
      break
    default:
      break
  }
}

function complete(open: ReadItem, item: Json, same: Same): void {
  open.done = item
  for (const key of ['type', 'name', 'call_id', 'role']) same(`${key} of ${open.id}`, item[key], open.added[key])
  const streamed = [...open.parts].toSorted(([a], [b]) => a - b).map(([, { text }]) => text)
  if (open.type === 'message')
    same(
      `the content of ${open.id}`,
      objectsIn(item, 'content').map((part) => part['text'] ?? part['refusal']),
      streamed,
    )
  if (open.type === 'reasoning' && streamed.length > 0)
    same(
      `the summary of ${open.id}`,
      objectsIn(item, 'summary').map(({ text }) => text),
      streamed,
    )
  if ((open.type === 'function_call' || open.type === 'custom_tool_call') && open.args !== '')
    same(`the arguments of ${open.id}`, item['arguments'] ?? item['input'], open.args)
}

function piecesOf({ id, type, parts, args, done }: ReadItem): readonly SaidPiece[] {
  const lane = 0
  if (type === 'message') return [...parts].toSorted(([a], [b]) => a - b).map(([, part]) => ({ ...part, lane }))
  if (type === 'function_call' || type === 'custom_tool_call')
    return [
      {
        kind: 'call',
        lane,
        id: `${id} ${textIn(done ?? {}, 'call_id')}`,
        name: textIn(done ?? {}, 'name'),
        args: done === undefined ? args : textIn(done, 'arguments') || textIn(done, 'input'),
      },
    ]
  if (done === undefined) return []
  const isCut = type === 'reasoning' ? done['encrypted_content'] === undefined : done['status'] === 'in_progress'
  return [{ kind: 'item', lane, id, json: JSON.stringify(done), ...(isCut ? { isCut } : {}) }]
}
