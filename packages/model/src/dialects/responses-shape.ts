/**
 * Responses events as the client gets them: one `response.created`, the ids of the first attempt that was seen, numbers and
 * indexes without holes, each item opened and closed once. Fills in what a server left out.
 *
 * I1  `sequence_number` is dense over everything that goes out, pings and the final error included.
 * I2  A message that the client holds in part continues under its own id, and its `done` events have the text that was sent.
 * I3  An item that another attempt completed is one more item: its content belongs to that attempt, so does its id.
 * I4  An item that began in this attempt passes as it comes, however odd. So nothing throws before the client holds a part.
 */
import type { FaultReport } from '@breakfall/faults'
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { FlatText } from '../flat-text.ts'
import { isObject, type JsonObject, objectOr, objectsIn, stringOr } from '../json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { itemKind } from './responses-items.ts'

export class ResponsesShape implements ClientShape {
  canHeal = true
  #number = 0
  /** The response object that the client was given first. */
  #response: JsonObject | undefined
  #isInProgress = false
  /** Another attempt than the first continues what the client holds. */
  #isHealed = false
  /** An id was missing, so the server's final object does not have it either. */
  #isFilledIn = false
  #mustCloseOpen = false
  readonly #items: ClientItem[] = []
  /** Items as they were completed, for the final object. */
  readonly #done: JsonObject[] = []
  /** The items of this attempt. */
  #upstream: UpstreamItem[] = []

  begin(healing: boolean): void {
    this.#upstream = []
    this.#isHealed ||= healing
    this.#mustCloseOpen = healing
  }

  skip(json: JsonObject | undefined): void {
    if (json?.['type'] === 'response.output_item.added') this.#upstream.push(upstreamItem(json, undefined))
  }

  opensStream(json: JsonObject | undefined): boolean {
    return LIFECYCLE.has(json?.['type'])
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (json === undefined) return ''
    if (LIFECYCLE.has(json['type'])) return this.#lifecycle(frame, json)
    const before = this.#closeOpen()
    const out = this.#event(frame, json, fresh)
    if (before === '') return out
    return before + (typeof out === 'string' ? out : plainFrame(out))
  }

  ending(): string {
    return ''
  }

  /** Clients count events, not comments, so a comment is only for a stream whose identity is not known yet. */
  ping(): string {
    if (this.#response === undefined) return ': ping\n\n'
    return this.#write({ type: 'response.in_progress', response: { ...this.#response, status: 'in_progress' } })
  }

  errorEnd({ category, error }: FaultReport, reported: JsonObject | undefined): string {
    const { code, message, param } = reported === undefined ? {} : errorIn(reported)
    return this.#write({ type: 'error', code: code ?? category, message: message ?? error, param: param ?? null })
  }

  // ---- events ----

  #event(frame: SseFrame, json: JsonObject, fresh: Fresh): SseFrame | string {
    const { type, response } = json
    if (type === 'response.output_item.added') return this.#added(frame, json)
    if (type === 'response.output_item.done') return this.#itemDone(frame, json)
    return isObject(response) ? this.#terminal(json, response) : this.#inside(frame, json, fresh)
  }

  #lifecycle(frame: SseFrame, json: JsonObject): SseFrame | string {
    const isProgress = json['type'] === 'response.in_progress'
    if (isProgress ? this.#isInProgress : this.#response !== undefined) return ''
    const response = objectOr(json['response'])
    this.#response ??= response
    this.#isInProgress ||= isProgress
    return this.#out(frame, json, { response: this.#asFirst(response) })
  }

  #added(frame: SseFrame, json: JsonObject): SseFrame | string {
    const item = objectOr(json['item'])
    const known = this.#knownItem(stringOr(item['id']))
    if (known !== undefined) {
      this.#upstream.push(upstreamItem(json, known)) // the same answer, read again
      return ''
    }
    const made = this.#newItem(item)
    this.#upstream.push({ ...upstreamItem(json, made), isNew: true })
    return this.#out(frame, json, { output_index: made.index, item: withId(item, made.id) })
  }

  /** The client's item with this id, unless this attempt began it: a server may use an id twice. */
  #knownItem(id: string): ClientItem | undefined {
    if (id === '' || this.#upstream.some((one) => one.isNew && one.id === id)) return undefined
    return this.#items.find((one) => one.id === id)
  }

  #newItem(item: JsonObject): ClientItem {
    const given = stringOr(item['id'])
    const index = this.#items.length
    if (given === '') this.#isFilledIn = true
    const id = given === '' ? `${stringOr(item['type']) || 'item'}_${index}` : given
    const made: ClientItem = {
      id,
      index,
      item,
      isOpen: true,
      openPart: undefined,
      texts: [],
      summaries: [],
      said: new Set(),
    }
    this.#items.push(made)
    if (itemKind(item) === 'effect') this.canHeal = false // what it did is not repeated
    return made
  }

  #itemDone(frame: SseFrame, json: JsonObject): SseFrame | string {
    const item = objectOr(json['item'])
    const from = this.#find(json, stringOr(item['id']), stringOr(item['call_id']))
    const adopted = from !== undefined && from.client === undefined
    const mine = from === undefined ? this.#newItem(item) : this.#clientItem(from)
    if (mine === undefined || !mine.isOpen) return ''
    mine.isOpen = false
    const complete = withId(adopted ? withTexts(item, mine.texts) : item, mine.id)
    this.#done.push(complete)
    return this.#out(frame, json, { output_index: mine.index, item: complete })
  }

  #inside(frame: SseFrame, json: JsonObject, fresh: Fresh): SseFrame | string {
    const isAboutItem = json['item_id'] !== undefined || json['output_index'] !== undefined
    const from = isAboutItem ? this.#find(json, stringOr(json['item_id']), '') : undefined
    if (from === undefined) return this.#out(frame, json, {})
    const mine = this.#clientItem(from)
    const { type } = json
    if (type === 'response.output_text.delta' || type === 'response.refusal.delta')
      return this.#textDelta(frame, json, from, mine, fresh)
    const at = partOf(json)
    const place = mine === undefined ? {} : { item_id: mine.id, output_index: mine.index, ...at }
    switch (type) {
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        if (mine !== undefined) note(mine, json)
        break
      case 'response.content_part.added':
        if (mine !== undefined) mine.openPart = at.content_index
        break
      case 'response.output_text.annotation.added':
        this.canHeal = false // cannot be compared with another attempt
        break
      case 'response.output_text.done':
      case 'response.refusal.done':
      case 'response.content_part.done':
        return this.#partDone(frame, json, from, mine, place)
      default:
        break
    }
    return mine?.isOpen === true ? this.#out(frame, json, place) : ''
  }

  /** Nearly every event is one of these. */
  #textDelta(
    frame: SseFrame,
    json: JsonObject,
    from: UpstreamItem,
    mine: ClientItem | undefined,
    fresh: Fresh,
  ): SseFrame | string {
    const delta = fresh === undefined ? stringOr(json['delta']) : (fresh.get('text') ?? '')
    const { content_index: given } = json
    const content_index = typeof given === 'number' ? given : 0
    if (from.isNew && mine !== undefined) mine.openPart = content_index // I4
    else if (mine?.isOpen !== true || mine.openPart !== content_index) {
      if (delta === '') return ''
      throw this.#divergence()
    }
    ;(mine.texts[content_index] ??= new FlatText()).add(delta)
    const fields = { item_id: mine.id, output_index: mine.index, content_index, delta }
    return this.#out(frame, json, fresh === undefined ? fields : { ...fields, logprobs: [] })
  }

  #partDone(
    frame: SseFrame,
    json: JsonObject,
    from: UpstreamItem,
    mine: ClientItem | undefined,
    place: JsonObject,
  ): SseFrame | string {
    const index = partOf(json).content_index ?? 0
    const name = `${stringOr(json['type'])} ${index}`
    if (mine?.isOpen !== true || mine.said.has(name)) return ''
    if (!from.isNew && mine.openPart !== index) return ''
    mine.said.add(name)
    const text = mine.texts[index]?.toString()
    if (json['type'] === 'response.content_part.done') {
      if (mine.openPart === index) mine.openPart = undefined
      const part = objectOr(json['part'])
      return this.#out(frame, json, { ...place, part: this.#isHealed ? withText(part, text) : part })
    }
    const key = json['type'] === 'response.refusal.done' ? 'refusal' : 'text'
    return this.#out(frame, json, { ...place, ...(this.#isHealed && text !== undefined ? { [key]: text } : {}) }) // I2
  }

  /** The answer is complete: the client's own items are its output wherever the server's would not fit them. */
  #terminal(json: JsonObject, response: JsonObject): string {
    const output = objectsIn(response['output'])
    for (const item of output) {
      const mine = this.#find({}, stringOr(item['id']), stringOr(item['call_id']))?.client
      if (mine?.isOpen !== true) continue
      mine.isOpen = false
      this.#done.push(withId(item, mine.id)) // its own `done` never came
    }
    const isOurs = this.#isHealed || this.#isFilledIn || output.length === 0
    const known = this.#asFirst(response)
    const type = json['type'] === 'response.done' ? 'response.completed' : json['type']
    return this.#write({ ...json, type, response: isOurs ? { ...known, output: this.#done } : known })
  }

  // ---- details ----

  /** What the client holds open of an earlier attempt's thoughts will not grow any more. */
  #closeOpen(): string {
    if (!this.#mustCloseOpen) return ''
    this.#mustCloseOpen = false
    const open = this.#items.filter(({ isOpen, item }) => isOpen && itemKind(item) === 'whole')
    return open
      .map((mine) => {
        mine.isOpen = false
        const complete = closed(mine)
        this.#done.push(complete)
        return this.#write({ type: 'response.output_item.done', output_index: mine.index, item: complete })
      })
      .join('')
  }

  #find(json: JsonObject, id: string, callId: string): UpstreamItem | undefined {
    const { output_index: index } = json
    const items = this.#upstream
    const byId = id === '' ? undefined : items.findLast((one) => one.id === id)
    if (byId !== undefined) return byId
    if (typeof index === 'number') return items.findLast((one) => one.index === index)
    const byCall = callId === '' ? undefined : items.findLast((one) => one.callId === callId)
    if (byCall !== undefined) return byCall
    const last = items.at(-1)
    return id !== '' && last?.id === '' ? last : undefined
  }

  /** The client's item for one of this attempt. A message whose beginning the client holds continues in the client's open one. */
  #clientItem(from: UpstreamItem): ClientItem | undefined {
    if (from.client !== undefined || from.type !== 'message') return from.client
    const open = this.#items.findLast(({ item }) => item['type'] === 'message')
    return open?.isOpen === true ? open : undefined
  }

  #asFirst(response: JsonObject): JsonObject {
    const first = this.#response
    if (first === undefined || first['id'] === response['id']) return response
    const { created_at } = first
    return { ...response, id: first['id'], ...(created_at === undefined ? {} : { created_at }) }
  }

  /** The event with these fields, unchanged if they are what it says already. */
  #out(frame: SseFrame, json: JsonObject, fields: JsonObject): SseFrame | string {
    const isSame = json['sequence_number'] === this.#number && frame.event !== undefined && holds(json, fields)
    if (!isSame) return this.#write({ ...json, ...fields })
    this.#number += frame.source?.events ?? 1 // I1
    return frame
  }

  #write(event: JsonObject): string {
    const type = stringOr(event['type'])
    const { type: _type, ...rest } = event
    const numbered = { type, ...rest, sequence_number: this.#number++ } // I1
    return plainFrame({ event: type, data: JSON.stringify(numbered) })
  }

  #divergence(): Fault {
    this.canHeal = false
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: 'the answer was asked for again and continued in a message that had been closed',
    })
  }
}

const LIFECYCLE: ReadonlySet<unknown> = new Set(['response.created', 'response.queued', 'response.in_progress'])

type ClientItem = {
  readonly id: string
  readonly index: number
  readonly item: JsonObject
  isOpen: boolean
  /** The content part that grows now. */
  openPart: number | undefined
  /** Text by content part. */
  readonly texts: FlatText[]
  readonly summaries: FlatText[]
  /** `done` events of parts that went out. */
  readonly said: Set<string>
}

type UpstreamItem = {
  readonly id: string
  readonly index: unknown
  readonly callId: string
  readonly type: string
  /** Undefined if the event that announced it was left out. */
  readonly client: ClientItem | undefined
  /** This attempt began it. */
  readonly isNew: boolean
}

function upstreamItem(json: JsonObject, client: ClientItem | undefined): UpstreamItem {
  const item = objectOr(json['item'])
  const [id, callId, type] = [stringOr(item['id']), stringOr(item['call_id']), stringOr(item['type'])]
  return { id, callId, type, index: json['output_index'], client, isNew: false }
}

/** Whether the event has these values already. `for … in` does not build a list for each of a hundred thousand events. */
function holds(json: JsonObject, fields: JsonObject): boolean {
  for (const key in fields) if (json[key] !== fields[key]) return false
  return true
}

const withId = (item: JsonObject, id: string): JsonObject => (item['id'] === id ? item : { ...item, id })

const withText = (part: JsonObject, text: string | undefined): JsonObject =>
  text === undefined ? part : { ...part, [part['type'] === 'refusal' ? 'refusal' : 'text']: text }

const withTexts = (item: JsonObject, texts: readonly FlatText[]): JsonObject =>
  Array.isArray(item['content'])
    ? { ...item, content: objectsIn(item['content']).map((part, index) => withText(part, texts[index]?.toString())) }
    : item

/** The part that an event is about, filled in where a server does not say. */
function partOf(json: JsonObject): { readonly content_index?: number; readonly summary_index?: number } {
  const type = stringOr(json['type'])
  const { content_index: content, summary_index: summary } = json
  if (type.startsWith('response.reasoning_summary')) return { summary_index: typeof summary === 'number' ? summary : 0 }
  const hasPart = /^response\.(?:output_text|refusal|content_part|reasoning_text)\./.test(type)
  return hasPart ? { content_index: typeof content === 'number' ? content : 0 } : {}
}

function note(mine: ClientItem, json: JsonObject): void {
  const { content_index, summary_index } = partOf(json)
  const [list, index] = summary_index === undefined ? [mine.texts, content_index ?? 0] : [mine.summaries, summary_index]
  ;(list[index] ??= new FlatText()).add(stringOr(json['delta']))
}

/** A reasoning item with what the client was given of it. */
const closed = ({ item, id, texts, summaries }: ClientItem): JsonObject => ({
  ...item,
  id,
  ...(texts.length === 0 ? {} : { content: texts.map((text) => ({ type: 'reasoning_text', text: text.toString() })) }),
  summary: summaries.map((text) => ({ type: 'summary_text', text: text.toString() })),
})

/** The error that a server reported, in any of its shapes. */
function errorIn(json: JsonObject): JsonObject {
  const holder = isObject(json['response']) ? json['response'] : json
  return isObject(holder['error']) ? holder['error'] : holder
}
