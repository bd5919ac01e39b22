/**
 * Responses events as the client gets them: one `response.created`, the ids of the first attempt that was seen, numbers and
 * indexes without holes, each item opened and closed once. Fills in what a server left out.
 *
 * I1  `sequence_number` is dense over everything that goes out, pings and the final error included.
 * I2  A message that the client holds in part continues under its own id and in its own parts, however another attempt divides
 *     the text. What says that it is done holds what was sent, not what that attempt says.
 * I3  An item that another attempt completed is one more item: its content belongs to that attempt, so does its id. Under
 *     the id of an item that the client holds open, it continues that item.
 * I4  An item that began in this attempt passes as it comes, however odd. So nothing throws before the client holds a part.
 */
import type { FaultReport } from '@breakfall/faults'
import { Fault } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { FlatText } from '../lib/flat-text.ts'
import { isObject, type JsonObject, objectOr, objectsIn, stringOr } from '../lib/json.ts'
import { type ClientShape, type Fresh, plainFrame } from './dialect.ts'
import { logprobsOf } from './logprobs.ts'
import { itemKind } from './responses-items.ts'

export class ResponsesShape implements ClientShape {
  canHeal = true
  readonly isUnchanged = false // events are numbered
  #number = 0
  /** The response object that the client was given first. */
  #response: JsonObject | undefined
  /** The lifecycle events that the client was given by earlier attempts, and by this one, which may repeat its own as signs of life. */
  readonly #toldBefore = new Set<unknown>()
  readonly #told = new Set<unknown>()
  /** Another attempt than the first continues what the client holds. */
  #isHealed = false
  /** An id was missing, so the server's final object does not have it either. */
  #isFilledIn = false
  readonly #items: ClientItem[] = []
  /** Items as they were completed, for the final object, by their index. */
  readonly #done: JsonObject[] = []
  /** The items of this attempt. */
  #upstream: UpstreamItem[] = []
  /** Which part each stretch of text went to, in the order in which they were sent. */
  readonly #stretches: Stretch[] = []
  /** The text of this attempt, if it heals. It begins with all that was sent: that was compared. */
  #replay = new FlatText()

  begin(healing: boolean): void {
    this.#upstream = []
    this.#replay = new FlatText()
    for (const type of this.#told) this.#toldBefore.add(type)
    this.#isHealed ||= healing
  }

  skip(json: JsonObject | undefined): boolean {
    if (json === undefined) return true
    const { type, item } = json
    const isMessage = objectOr(item)['type'] === 'message'
    if (type === 'response.output_item.added' && isMessage) this.#upstream.push(upstreamItem(json, undefined))
    return isMessage || LIFECYCLE.has(type) || SIGNS_OF_LIFE.has(type) || PART_EVENTS.has(type)
  }

  replayed(text: string): void {
    this.#replay.add(text)
  }

  opensStream(json: JsonObject | undefined): boolean {
    return LIFECYCLE.has(json?.['type'])
  }

  frame(frame: SseFrame, json: JsonObject | undefined, fresh: Fresh): SseFrame | string {
    if (json === undefined) return ''
    return LIFECYCLE.has(json['type']) ? this.#lifecycle(frame, json) : this.#event(frame, json, fresh)
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
    if (type === 'response.output_item.done') return this.#itemDone(frame, json, fresh)
    return isObject(response) ? this.#terminal(frame, json, response) : this.#inside(frame, json, fresh)
  }

  #lifecycle(frame: SseFrame, json: JsonObject): SseFrame | string {
    const { type } = json
    if (this.#toldBefore.has(type) || this.#isHealed) return ''
    const response = objectOr(json['response'])
    this.#response ??= response
    this.#told.add(type)
    return this.#out(frame, json, { response: this.#asFirst(response) })
  }

  #added(frame: SseFrame, json: JsonObject): SseFrame | string {
    const item = objectOr(json['item'])
    const known = this.#knownItem(stringOr(item['id']))
    if (known !== undefined) {
      this.#upstream.push(upstreamItem(json, known)) // the same answer, read again
      return ''
    }
    const before = this.#closeOpen()
    const made = this.#newItem(item)
    this.#upstream.push({ ...upstreamItem(json, made), isNew: true })
    return after(before, this.#out(frame, json, { output_index: made.index, item: withId(item, made.id) }))
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
      parts: [],
      chars: [],
      texts: [],
      summaries: [],
      said: new Set(),
    }
    this.#items.push(made)
    if (itemKind(item) === 'effect') this.canHeal = false // what it did is not repeated
    return made
  }

  #itemDone(frame: SseFrame, json: JsonObject, fresh: Fresh): SseFrame | string {
    const item = objectOr(json['item'])
    const from = this.#find(json, stringOr(item['id']), stringOr(item['call_id']))
    if (from === undefined && fresh !== undefined) return this.#wholeMessage(json, item, fresh)
    const before = from === undefined ? this.#closeOpen() : ''
    const mine = from === undefined ? this.#newItem(item) : this.#clientItem(from)
    if (mine === undefined || !mine.isOpen) return ''
    if (from === undefined && item['type'] === 'message')
      for (const [index, part] of objectsIn(item['content']).entries()) this.#sent(mine, index, textOf(part).length)
    if (from?.isNew === false)
      return item['type'] === 'message' ? this.#closeMessage(mine, item) : this.#closeAgain(mine, item)
    mine.isOpen = false
    this.#done[mine.index] = withId(item, mine.id)
    return after(before, this.#out(frame, json, { output_index: mine.index, item: this.#done[mine.index] }))
  }

  /** A message that no event announced, and whose beginning the client has. */
  #wholeMessage(json: JsonObject, item: JsonObject, fresh: readonly string[]): string {
    const from = upstreamItem(json, undefined)
    const mine = this.#clientItem(from)
    const delta = fresh.join('')
    if (mine?.openPart === undefined) {
      if (delta === '') return ''
      throw this.#divergence()
    }
    const { type } = mine.parts[mine.openPart] ?? {}
    const name = type === 'refusal' ? 'response.refusal.delta' : 'response.output_text.delta'
    const added = delta === '' ? '' : this.#write({ type: name, ...this.#grow(mine, mine.openPart, name, delta) })
    return added + this.#closeMessage(mine, item)
  }

  /** I2: the ends of its open part and of the message, with what was sent. */
  #closeMessage(mine: ClientItem, item: JsonObject): string {
    const closed = this.#closePart(mine)
    const given = objectsIn(item['content'])
    const content = Array.from({ length: Math.max(mine.parts.length, mine.chars.length) }, (_, index) => {
      const part = this.#sentPart(mine, index)
      const same = given[index]
      return same !== undefined && textOf(same) === textOf(part) && same['type'] === part['type'] ? same : part
    })
    // Their places are in a text that is divided otherwise.
    if (given.some((part) => objectsIn(part['annotations']).length > 0 && !content.includes(part)))
      throw this.#divergence()
    return closed + this.#closeWith(mine, { ...mine.item, ...item, id: mine.id, content })
  }

  /** The part that the client holds open will not grow any more. */
  #closePart(mine: ClientItem): string {
    const { openPart: content_index } = mine
    if (content_index === undefined) return ''
    mine.openPart = undefined
    const at = { item_id: mine.id, output_index: mine.index, content_index }
    const part = this.#sentPart(mine, content_index)
    const [key, name] = part['type'] === 'refusal' ? ['refusal', 'refusal'] : ['text', 'output_text']
    const ends = [
      { type: `response.${name}.done`, ...at, [key]: textOf(part) },
      { type: 'response.content_part.done', ...at, part },
    ]
    const missing = ends.filter(({ type }) => !mine.said.has(`${type} ${content_index}`))
    return missing.map((event) => this.#write(event)).join('')
  }

  #inside(frame: SseFrame, json: JsonObject, fresh: Fresh): SseFrame | string {
    const isAboutItem = json['item_id'] !== undefined || json['output_index'] !== undefined
    const from = isAboutItem ? this.#find(json, stringOr(json['item_id']), '') : undefined
    if (from === undefined) return this.#out(frame, json, {})
    const mine = this.#clientItem(from)
    const { type } = json
    if (type === 'response.output_text.delta' || type === 'response.refusal.delta')
      return this.#textDelta(frame, json, from, mine, fresh)
    if (from.isNew) return this.#insideNew(frame, json, mine)
    if (mine?.isOpen !== true) {
      if (type === ANNOTATION) throw this.#divergence()
      return ''
    }
    const given = partOf(json).content_index
    if (type === 'response.content_part.added') {
      const before = this.#closePart(mine)
      const content_index = Math.max(mine.parts.length, mine.chars.length)
      from.parts.set(given ?? 0, content_index)
      return before + this.#write({ ...json, ...this.#opened(mine, content_index, objectOr(json['part'])) })
    }
    const content_index = this.#partFor(from, mine, given ?? 0)
    if (type === ANNOTATION) {
      this.canHeal = false
      if (content_index === undefined) throw this.#divergence()
      return this.#write({ ...json, item_id: mine.id, output_index: mine.index, content_index })
    }
    return type === 'response.content_part.done' && content_index === mine.openPart ? this.#closePart(mine) : ''
  }

  /** About an item that this attempt began. */
  #insideNew(frame: SseFrame, json: JsonObject, mine: ClientItem | undefined): SseFrame | string {
    const { type } = json
    const at = partOf(json)
    const place = mine === undefined ? {} : { item_id: mine.id, output_index: mine.index, ...at }
    switch (type) {
      case 'response.reasoning_text.delta':
      case 'response.reasoning_summary_text.delta':
        if (mine !== undefined) note(mine, json)
        break
      case 'response.reasoning_summary_part.added':
        if (mine !== undefined) mine.summaries[at.summary_index ?? 0] ??= new FlatText()
        break
      case 'response.content_part.added':
        if (mine !== undefined) this.#opened(mine, at.content_index ?? 0, objectOr(json['part']))
        break
      case ANNOTATION:
        this.canHeal = false // cannot be compared with another attempt
        break
      case 'response.output_text.done':
      case 'response.refusal.done':
      case 'response.content_part.done': {
        const index = at.content_index ?? 0
        const name = `${stringOr(type)} ${index}`
        if (mine?.isOpen !== true || mine.said.has(name)) return ''
        mine.said.add(name)
        if (type === 'response.content_part.done' && mine.openPart === index) mine.openPart = undefined
        break
      }
      default:
        break
    }
    return mine?.isOpen === true ? this.#out(frame, json, place) : ''
  }

  #opened(mine: ClientItem, content_index: number, part: JsonObject): JsonObject {
    mine.openPart = content_index
    mine.parts[content_index] = part
    return { item_id: mine.id, output_index: mine.index, content_index }
  }

  /** The client's part for one of another attempt. All that came before is repeated, so it is the one that the client holds open. */
  #partFor({ parts }: UpstreamItem, mine: ClientItem, given: number): number | undefined {
    const known = parts.get(given)
    if (known !== undefined || mine.openPart === undefined) return known
    if ([...parts.values()].includes(mine.openPart)) return undefined
    parts.set(given, mine.openPart)
    return mine.openPart
  }

  /** Nearly every event is one of these. */
  #textDelta(
    frame: SseFrame,
    json: JsonObject,
    from: UpstreamItem,
    mine: ClientItem | undefined,
    fresh: Fresh,
  ): SseFrame | string {
    const delta = fresh === undefined ? stringOr(json['delta']) : fresh.join('')
    const { content_index: given, type } = json
    const asked = typeof given === 'number' ? given : 0
    const index = from.isNew || mine === undefined ? asked : this.#partFor(from, mine, asked)
    const isSameKind = (type === 'response.refusal.delta') === (mine?.parts[index ?? 0]?.['type'] === 'refusal')
    const fits = from.isNew ? mine !== undefined : mine?.isOpen === true && index === mine.openPart && isSameKind // I4
    if (mine === undefined || index === undefined || !fits) {
      if (delta === '') return ''
      throw this.#divergence()
    }
    mine.openPart = index
    const fields = this.#grow(mine, index, type, delta)
    if (fresh === undefined) return this.#out(frame, json, fields)
    return this.#out(frame, json, { ...fields, logprobs: logprobsOf(json['logprobs'], delta) ?? [] })
  }

  #grow(mine: ClientItem, content_index: number, type: unknown, delta: string): JsonObject {
    if (type === 'response.refusal.delta') mine.parts[content_index] ??= { type: 'refusal', refusal: '' }
    this.#sent(mine, content_index, delta.length)
    return { item_id: mine.id, output_index: mine.index, content_index, delta }
  }

  /** The answer is complete: the client's own items are its output wherever the server's would not fit them. */
  #terminal(frame: SseFrame, json: JsonObject, response: JsonObject): SseFrame | string {
    const output = objectsIn(response['output'])
    for (const item of output) {
      const mine = this.#find({}, stringOr(item['id']), stringOr(item['call_id']))?.client
      if (mine?.isOpen !== true) continue
      mine.isOpen = false
      this.#done[mine.index] = withId(item, mine.id) // its own `done` never came
    }
    // A message whose end no event of this attempt names.
    const rest = this.#isHealed ? this.#items.filter(({ isOpen, item }) => isOpen && item['type'] === 'message') : []
    const closed = this.#closeOpen() + rest.map((mine) => this.#closeMessage(mine, { status: 'completed' })).join('')
    const isOurs = this.#isHealed || this.#isFilledIn || output.length === 0
    const known = this.#asFirst(response)
    const type = json['type'] === 'response.done' ? 'response.completed' : json['type']
    if (!isOurs) return this.#out(frame, json, { type, response: known })
    const items = this.#done.filter(isObject)
    // Some servers leave the output out, as ChatGPT's does.
    const isAsIs = closed === '' && !this.#isHealed && this.#fits(frame, json, { type, response: known })
    const data = isAsIs ? replacedOnce(frame.data, EMPTY_OUTPUT, `"output":${JSON.stringify(items)}`) : undefined
    if (data === undefined) return closed + this.#write({ ...json, type, response: { ...known, output: items } })
    this.#number++
    return { ...frame, data, source: undefined }
  }

  // ---- details ----

  /** What the client holds open of an earlier attempt's thoughts will not grow any more, unless this attempt announced them again. */
  #closeOpen(): string {
    const isAnnounced = (mine: ClientItem): boolean => this.#upstream.some(({ client }) => client === mine)
    const open = this.#items.filter((mine) => mine.isOpen && itemKind(mine.item) === 'whole' && !isAnnounced(mine))
    return open.map((mine) => this.#closeWith(mine, closed(mine))).join('')
  }

  /** I3: an item that came again under its id. If the client has other thoughts of it, those end there. */
  #closeAgain(mine: ClientItem, item: JsonObject): string {
    const [summary, content] = [objectsIn(item['summary']), objectsIn(item['content'])]
    if (!beginsWith(summary, mine.summaries) || !beginsWith(content, mine.texts))
      return this.#closeWith(mine, closed(mine))
    const at = { item_id: mine.id, output_index: mine.index }
    const rest = [
      ...summary.flatMap((part, summary_index) => {
        const sent = mine.summaries[summary_index]
        const where = { ...at, summary_index }
        const added = { type: 'response.reasoning_summary_part.added', ...where, part: { ...part, text: '' } }
        const delta = textOf(part).slice(sent?.length)
        return [
          ...(sent === undefined ? [added] : []),
          { type: 'response.reasoning_summary_text.delta', ...where, delta },
        ]
      }),
      ...content.map((part, content_index) => {
        const delta = textOf(part).slice(mine.texts[content_index]?.length)
        return { type: 'response.reasoning_text.delta', ...at, content_index, delta }
      }),
    ]
    const missing = rest.filter((event) => !('delta' in event) || event.delta !== '')
    return missing.map((event) => this.#write(event)).join('') + this.#closeWith(mine, withId(item, mine.id))
  }

  #closeWith(mine: ClientItem, complete: JsonObject): string {
    mine.isOpen = false
    this.#done[mine.index] = complete
    return this.#write({ type: 'response.output_item.done', output_index: mine.index, item: complete })
  }

  #sent(item: ClientItem, part: number, chars: number): void {
    item.chars[part] = (item.chars[part] ?? 0) + chars
    const last = this.#stretches.at(-1)
    if (last?.item === item && last.part === part) last.chars += chars
    else if (this.#stretches.length < STRETCHES_MAX) this.#stretches.push({ item, part, chars })
    else this.canHeal = false
  }

  /** I2: a part as the client was given it. */
  #sentPart(item: ClientItem, part: number): JsonObject {
    const replay = this.#replay.toString()
    let text = ''
    let from = 0
    for (const stretch of this.#stretches) {
      if (stretch.item === item && stretch.part === part) text += replay.slice(from, from + stretch.chars)
      from += stretch.chars
    }
    const announced = item.parts[part] ?? { type: 'output_text', annotations: [] }
    return { ...announced, [announced['type'] === 'refusal' ? 'refusal' : 'text']: text }
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

  /** The event with these fields, unchanged if they are what it says already. If only its number is another, all else keeps its bytes. */
  #out(frame: SseFrame, json: JsonObject, fields: JsonObject): SseFrame | string {
    if (this.#fits(frame, json, fields)) {
      this.#number += frame.source?.events ?? 1 // I1
      return frame
    }
    const { sequence_number: given } = json
    const isOne = (frame.source?.events ?? 1) === 1 // several that were taken as one have the data of the first
    if (!isOne || typeof given !== 'number' || !this.#fits(frame, { ...json, sequence_number: this.#number }, fields))
      return this.#write({ ...json, ...fields })
    const data = replacedOnce(frame.data, SEQUENCE_NUMBER, `"sequence_number":${this.#number}`)
    if (data === undefined) return this.#write({ ...json, ...fields })
    this.#number++
    return { ...frame, data, source: undefined }
  }

  #fits(frame: SseFrame, json: JsonObject, fields: JsonObject): boolean {
    return json['sequence_number'] === this.#number && frame.event !== undefined && holds(json, fields)
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

const after = (before: string, out: SseFrame | string): SseFrame | string =>
  before === '' ? out : before + (typeof out === 'string' ? out : plainFrame(out))

const ANNOTATION = 'response.output_text.annotation.added'
/** What another attempt says again about a text that the client has. */
const PART_EVENTS: ReadonlySet<unknown> = new Set([
  'response.content_part.added',
  'response.output_text.delta',
  'response.output_text.done',
  'response.refusal.delta',
  'response.refusal.done',
  'response.content_part.done',
])
const LIFECYCLE: ReadonlySet<unknown> = new Set(['response.created', 'response.queued', 'response.in_progress'])
const SIGNS_OF_LIFE: ReadonlySet<unknown> = new Set(['keepalive', 'ping'])

type ClientItem = {
  readonly id: string
  readonly index: number
  readonly item: JsonObject
  isOpen: boolean
  /** The content part that grows now. */
  openPart: number | undefined
  /** The parts that were announced, as they were. */
  readonly parts: JsonObject[]
  /** How much of a message's text was sent, by part. */
  readonly chars: number[]
  /** Thoughts that were sent, by part. */
  readonly texts: FlatText[]
  readonly summaries: FlatText[]
  /** `done` events of parts that went out. */
  readonly said: Set<string>
}

type Stretch = { readonly item: ClientItem; readonly part: number; chars: number }

/** Parts that grow by turns as often as this are remembered no more. */
const STRETCHES_MAX = 10_000

type UpstreamItem = {
  readonly id: string
  readonly index: unknown
  readonly callId: string
  readonly type: string
  /** Undefined if the event that announced it was left out. */
  readonly client: ClientItem | undefined
  /** This attempt began it. */
  readonly isNew: boolean
  /** The client's part for each of its parts that continues one of an earlier attempt, or is new. */
  readonly parts: Map<number, number>
}

function upstreamItem(json: JsonObject, client: ClientItem | undefined): UpstreamItem {
  const item = objectOr(json['item'])
  const [id, callId, type] = [stringOr(item['id']), stringOr(item['call_id']), stringOr(item['type'])]
  return { id, callId, type, index: json['output_index'], client, isNew: false, parts: new Map() }
}

/** Whether the event has these values already. `for … in` does not build a list for each of a hundred thousand events. */
function holds(json: JsonObject, fields: JsonObject): boolean {
  for (const key in fields) if (json[key] !== fields[key]) return false
  return true
}

/** Not in a string, where its quote would be escaped. */
const SEQUENCE_NUMBER = /(?<!\\)"sequence_number":\s*\d+/g
const EMPTY_OUTPUT = /(?<!\\)"output":\s*\[\s*\]/g

/** The JSON text with this field changed. Numbers that were parsed and written again may be others. Undefined if there are several. */
const replacedOnce = (data: string, field: RegExp, by: string): string | undefined =>
  data.match(field)?.length === 1 ? data.replace(field, () => by) : undefined

const withId = (item: JsonObject, id: string): JsonObject => (item['id'] === id ? item : { ...item, id })

const textOf = (part: JsonObject): string => stringOr(part['text'] ?? part['refusal'])

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

const beginsWith = (parts: readonly JsonObject[], sent: readonly FlatText[]): boolean =>
  sent.every((text, index) => textOf(parts[index] ?? {}).startsWith(text.toString()))

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
