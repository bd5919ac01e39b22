/**
 * Reads the events of OpenAI's Responses API, as OpenAI and its imitators send them: numbered or not, with or without indexes,
 * with all `done` events or only some.
 *
 * I1  The end is a terminal event and the status inside it. `incomplete` is a finished answer, `failed` throws its Fault.
 * I2  What the client would run is a part of the answer even if this file does not know its type.
 */
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { isObject, type JsonObject, objectOr, objectsIn, stringOr } from '../lib/json.ts'
import type { Profile } from '../contract/profiles.ts'
import { frameHead } from './dialect.ts'
import { EventTemplate } from './event-template.ts'
import { inBandFault, isInBandError, notJson } from './in-band.ts'
import {
  type AnswerDecoder,
  finishNamed,
  type FrameKind,
  type FrameRun,
  type PartHandler,
  ReadAnswer,
  type StreamPosition,
  type TextPart,
  type ToolPart,
} from './read-answer.ts'
import { callForm, itemKind, type ItemKind } from './responses-items.ts'
import { restFrames, type SeenItem } from './responses-frames.ts'

export class ResponsesDecoder implements AnswerDecoder {
  readonly answer: ReadAnswer
  json: JsonObject | undefined
  frameKind: FrameKind | undefined
  readonly #profile: Profile
  readonly #items: Item[] = []
  /** The item that came last with each name that servers give it. */
  readonly #byId = new Map<string, Item>()
  readonly #byIndex = new Map<number, Item>()
  readonly #byCall = new Map<string, Item>()
  readonly #template = new EventTemplate()
  /** The text that grew when the template was learnt. */
  #grows: { readonly item: Item; readonly index: number } | undefined
  /** The server's own name for this answer. */
  #id: string | undefined
  /** The number of the last event, or -1. */
  #number = -1

  constructor(handler: PartHandler, nextPartId: () => string, profile: Profile) {
    this.answer = new ReadAnswer(handler, nextPartId)
    this.#profile = profile
  }

  get position(): StreamPosition | undefined {
    const [id, after] = [this.#id, this.#number]
    if (id === undefined || after < 0) return undefined
    return { id, after, rest: (final) => restFrames(final, this.#seen()) }
  }

  frame(frame: SseFrame): void {
    this.json = undefined
    this.frameKind = 'lifecycle'
    if (frame.data === '[DONE]') return // this API has no such marker; some translating proxies add it
    const known = this.#template.match(frame.data)
    if (known !== undefined && this.#grows !== undefined) return this.#delta(known, this.#grows)
    const plain = parseFrame(frame.data)
    const json = withType(plain, frame.event)
    this.json = json
    const { sequence_number: number, type } = json
    if (typeof number === 'number') this.#number = number
    if (type === 'error' || (typeof type !== 'string' && isInBandError(json))) throw inBandFault(flatError(json))
    this.#event(stringOr(type), json)
    this.#learn(frame, plain)
  }

  run(text: string, from: number): FrameRun | undefined {
    const grows = this.#grows
    const run = grows === undefined ? undefined : this.#template.run(text, from, 'delta')
    if (grows === undefined || run === undefined) return undefined
    this.#delta(run.event, grows)
    if (run.event['sequence_number'] !== undefined) this.#number += run.events - 1
    return run
  }

  whole(json: JsonObject): void {
    if (isInBandError(json) && json['status'] !== 'completed') throw inBandFault(json)
    if (!Array.isArray(json['output']))
      throw new Fault('model_server_error', { phase: 'stream', facts: { detail: 'the answer has no output' } })
    for (const item of objectsIn(json['output'])) this.#wholeItem(item)
    const { status } = json
    // `background: true` without a stream: the client will ask for the rest itself.
    if (status === 'queued' || status === 'in_progress') this.#end(json, 'stop')
    else this.#terminal('response.completed', json)
  }

  // ---- deltas, which nearly every event is ----

  /** Events after this one may be the same but for their number and text. Any other event may begin another item. */
  #learn(frame: SseFrame, event: JsonObject): void {
    const type = TEXT_DELTAS.find((known) => known === event['type'])
    const isText = type !== undefined && typeof event['delta'] === 'string'
    const item = !isText ? undefined : this.#find(event, stringOr(event['item_id']), '')
    this.#grows = item === undefined ? undefined : { item, index: partIndex(event) }
    if (item !== undefined) this.#template.learn(frame.data, { ...event, type }, CHANGING, frameHead(frame))
  }

  #delta(event: JsonObject, { item, index }: { readonly item: Item; readonly index: number }): void {
    this.json = event
    const { sequence_number: number, delta } = event
    if (typeof number === 'number') this.#number = number
    this.answer.progress++
    this.#place(item, 'inside')
    this.#grow(item, index, stringOr(delta), event['type'] === REFUSAL)
  }

  // ---- events ----

  #event(type: string, json: JsonObject): void {
    if (this.#profile.terminalEvents.includes(type)) return this.#terminal(type, objectOr(json['response']))
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        this.#id ??= stringOr(objectOr(json['response'])['id']) || undefined
        return undefined
      case 'response.output_item.added':
        return this.#added(json)
      case 'response.output_item.done':
        return this.#itemDone(json)
      default:
        return this.#inItem(type, json)
    }
  }

  #added(json: JsonObject): void {
    this.answer.progress++
    this.#place(this.#open(objectOr(json['item']), json), 'opening')
  }

  #open(item: JsonObject, json: JsonObject): Item {
    const { answer } = this
    const kind = itemKind(item)
    const opened: Item = {
      id: stringOr(item['id']),
      json,
      kind,
      isDone: false,
      chars: [],
      part: undefined,
      tool: undefined,
    }
    this.#items.push(opened)
    const { output_index: index } = json
    if (opened.id !== '') this.#byId.set(opened.id, opened)
    if (typeof index === 'number') this.#byIndex.set(index, opened)
    if (kind === 'effect') answer.serverTool ??= stringOr(item['type'])
    if (item['type'] !== 'message' && item['type'] !== 'reasoning') answer.isMeant = true
    if (kind !== 'call') return opened
    opened.tool = answer.openTool(
      stringOr(item['call_id']),
      stringOr(item['name']) || stringOr(item['type']),
      callForm(item),
    ) // I2
    this.#nameCall(opened)
    answer.growTool(opened.tool, stringOr(item['arguments'] ?? item['input']))
    return opened
  }

  #itemDone(json: JsonObject): void {
    this.answer.progress++
    const item = objectOr(json['item'])
    const known = this.#find(json, stringOr(item['id']), stringOr(item['call_id']))
    // A server that announces nothing: the item comes whole.
    if (known === undefined) return this.#wholeItem(item, json)
    known.isDone = true
    this.#completeTool(known, item)
    this.#place(known, 'end')
  }

  #wholeItem(item: JsonObject, json: JsonObject = {}): void {
    const opened = this.#open(item, json)
    opened.isDone = true
    for (const { text, refusal } of objectsIn(item['content']))
      this.#grow(opened, 0, stringOr(text ?? refusal), text === undefined)
    this.#completeTool(opened, item)
    this.#place(opened, 'end')
    if (opened.kind === 'text' && opened.chars.length > 0) this.frameKind = 'content'
  }

  #completeTool(opened: Item, item: JsonObject): void {
    const { tool } = opened
    if (tool === undefined) return
    const all = stringOr(item['arguments'] ?? item['input'])
    if (tool.arguments === '' && all !== '') this.answer.growTool(tool, all)
    if (tool.callId === '') tool.callId = stringOr(item['call_id'])
    this.#nameCall(opened)
    tool.isCut = item['status'] === 'incomplete'
    tool.isDone = !tool.isCut
  }

  #inItem(type: string, json: JsonObject): void {
    const item = this.#find(json, stringOr(json['item_id']), '')
    if (item === undefined) return undefined // `response.metadata` and events that are not known yet
    this.answer.progress++
    const { delta } = json
    const isText = typeof delta === 'string' && delta !== ''
    this.#place(item, 'inside')
    if (isText && TEXT_DELTAS.some((known) => known === type))
      return this.#grow(item, partIndex(json), delta, type === REFUSAL)
    switch (type) {
      case 'response.content_part.added':
        item.chars[partIndex(json)] ??= 0
        if (item.kind === 'text') this.frameKind = 'opening'
        return undefined
      case 'response.output_text.annotation.added':
        this.answer.isMeant = true
        return undefined
      case 'response.reasoning_summary_part.added':
        item.chars[partIndex(json)] ??= 0
        return undefined
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        if (isText && item.tool !== undefined) this.answer.growTool(item.tool, delta)
        return undefined
      case 'response.function_call_arguments.done':
      case 'response.custom_tool_call_input.done': {
        const all = stringOr(json['arguments'] ?? json['input'])
        if (item.tool?.arguments === '' && all !== '') this.answer.growTool(item.tool, all)
        return undefined
      }
      default:
        return undefined
    }
  }

  #grow(item: Item, index: number, text: string, isRefusal: boolean): void {
    if (text === '' || (item.kind !== 'text' && item.kind !== 'whole')) return
    if (item.part?.isRefusal !== isRefusal)
      item.part = this.answer.openText(item.kind === 'text' ? 'text' : 'reasoning', isRefusal)
    item.chars[index] = (item.chars[index] ?? 0) + text.length
    this.answer.growText(item.part, text)
    if (item.kind === 'text') this.frameKind = 'content'
  }

  /** What a frame of this item is to the client. */
  #place({ kind }: Item, where: 'opening' | 'inside' | 'end'): void {
    if (kind === 'call') this.frameKind = 'tool'
    else if (kind === 'whole') this.frameKind = where === 'end' ? 'item-end' : 'item'
    else if (kind === 'effect') this.frameKind = 'content'
    else this.frameKind = where === 'opening' ? 'opening' : 'lifecycle'
  }

  /** By its id, its index, its call, or, of a server that gives none of them, the last one. */
  #find(json: JsonObject, id: string, callId: string): Item | undefined {
    const { output_index: index } = json
    const byId = this.#byId.get(id)
    if (byId !== undefined) return byId
    if (typeof index === 'number') return this.#byIndex.get(index)
    const byCall = this.#byCall.get(callId)
    if (byCall !== undefined) return byCall
    const last = this.#items.at(-1)
    return id !== '' && last?.id === '' && !last.isDone ? last : undefined
  }

  // ---- the end ----

  /** I1 */
  #terminal(type: string, response: JsonObject): void {
    const named = type === 'response.done' ? 'completed' : type.slice('response.'.length)
    const { status: inside } = response
    const status = this.#profile.statusInsideTerminal && typeof inside === 'string' ? inside : named
    switch (status) {
      case 'completed':
        return this.#end(response, this.#hasCalls ? 'tool_calls' : 'stop')
      case 'incomplete':
        return this.#end(response, incompleteBecause(objectOr(response['incomplete_details'])['reason']))
      case 'failed':
        throw inBandFault(flatError({ error: response['error'] ?? {} }))
      case 'cancelled':
        throw new Fault('model_server_error', {
          phase: 'stream',
          next: 'never',
          facts: { detail: 'the answer was cancelled at the provider' },
        })
      default:
        throw new Fault('model_stream_incomplete', {
          phase: 'stream',
          errorRaw: `the answer ended with the status ${String(status).slice(0, 50)}`,
        })
    }
  }

  /** What was read of each item. */
  #seen(): readonly SeenItem[] {
    return this.#items.map(({ id, json, isDone, chars, tool }) => ({
      id,
      index: json['output_index'],
      isDone,
      chars,
      arguments: tool?.arguments ?? '',
    }))
  }

  get #hasCalls(): boolean {
    return this.answer.tools.some(({ form }) => form !== 'item')
  }

  #end(response: JsonObject, finish: string): void {
    const { answer } = this
    const output = objectsIn(response['output'])
    // Some servers leave out the last `done` events; the final object has those items.
    for (const item of output) this.#completeFrom(item)
    const { usage, status } = response
    if (isObject(usage)) this.#usage(usage)
    // The client continues on its own, or asks for the rest.
    if (status !== 'completed' || response['end_turn'] === false || output.some(isOther)) answer.isMeant = true
    answer.isVisible ||= output.some(isSeen) // some servers have the text only here
    answer.finish = finish === 'stop' && this.#hasCalls ? 'tool_calls' : finish
    answer.ended = true
    this.frameKind = 'lifecycle'
  }

  #completeFrom(item: JsonObject): void {
    const open = this.#byId.get(stringOr(item['id'])) ?? this.#byCall.get(stringOr(item['call_id']))
    if (open?.isDone === false) this.#completeTool(open, item)
  }

  #nameCall(item: Item): void {
    if (item.tool !== undefined && item.tool.callId !== '') this.#byCall.set(item.tool.callId, item)
  }

  #usage({ input_tokens: input, output_tokens: output, input_tokens_details: details }: JsonObject): void {
    this.answer.count({ input, output, cacheRead: objectOr(details)['cached_tokens'] })
  }
}

// ---- details ----

const REFUSAL = 'response.refusal.delta'
const TEXT_DELTAS = [
  'response.output_text.delta',
  REFUSAL,
  'response.reasoning_text.delta',
  'response.reasoning_summary_text.delta',
] as const

/** What differs between two deltas of one text. OpenAI pads each with random letters. */
const CHANGING = ['sequence_number', 'delta', 'obfuscation'] as const

type Item = {
  readonly id: string
  /** The event that announced it. */
  readonly json: JsonObject
  readonly kind: ItemKind
  isDone: boolean
  /** How much text was read, by content part. */
  readonly chars: (number | undefined)[]
  part: TextPart | undefined
  tool: ToolPart | undefined
}

const isOther = ({ type }: JsonObject): boolean => type !== 'reasoning' && type !== 'message'

const isSeen = ({ type, content }: JsonObject): boolean =>
  type === 'message' && objectsIn(content).some(({ text, refusal }) => /\S/.test(stringOr(text ?? refusal)))

function partIndex(json: JsonObject): number {
  const index = json['content_index'] ?? json['summary_index']
  return typeof index === 'number' ? index : 0
}

const incompleteBecause = (reason: unknown): string => (typeof reason === 'string' ? finishNamed(reason) : 'length')

/** OpenAI documents a flat error and sends a nested one. A proxy's own timeout calls itself an invalid request. */
function flatError(json: JsonObject): JsonObject {
  const inner = isObject(json['error']) ? json['error'] : json
  const { code } = inner
  const { type } = inner
  const isTimeout = code === 'request_timeout'
  return { error: { ...inner, type: isTimeout || type === 'error' ? 'server_error' : type } }
}

function parseFrame(data: string): JsonObject {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch (cause) {
    throw notJson(data, cause)
  }
  if (!isObject(json)) throw notJson(data, undefined)
  return json
}

/** Some servers name the event only outside its JSON. */
export const withType = (json: JsonObject, event: string | undefined): JsonObject =>
  typeof json['type'] === 'string' || event === undefined || isInBandError(json) ? json : { ...json, type: event }
