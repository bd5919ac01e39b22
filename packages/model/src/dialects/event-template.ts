/**
 * Reads a numbered event that differs from an earlier one only in its number and its texts, without parsing it again. Nearly
 * every event of a streamed response is like that, and parsing is most of the cost of reading one.
 *
 * I1  Exact or nothing: an event matches only if its JSON would parse to what is returned. A text is the content of a string
 *     literal without backslashes and control characters, so it stands for itself; a number has digits only.
 * I2  The strings kept are copies, not slices that would keep the whole read of the socket alive.
 */
import type { JsonObject } from '../json.ts'
import { copied, isPlain, joined } from './chunk-template.ts'

/** Several events, one after the other, that differ only in their numbers and texts. */
export type EventRun = {
  /** The first of them, with the text of all. */
  readonly event: JsonObject
  readonly events: number
  /** The index after the last of them. */
  readonly to: number
}

export class EventTemplate {
  #event: JsonObject | undefined
  #slots: readonly Slot[] = []
  #after = ''
  /** The same for events in a stream, with what is around their data. */
  #runSlots: readonly Slot[] = []
  #runAfter = ''
  /** The values of the event read last: its texts by slot, and its number. */
  readonly #texts: string[] = []
  #number = Number.NaN

  /** The event, or undefined if it has to be parsed. */
  match(data: string): JsonObject | undefined {
    const event = this.#event
    if (event === undefined || this.#read(data, 0, this.#slots, this.#after) !== data.length) return undefined
    return this.#filledIn(event)
  }

  /** The events from `from` on, up to the first that has to be parsed or has another number than the next. `key`: their text. */
  run(text: string, from: number, key: string): EventRun | undefined {
    const template = this.#event
    if (template === undefined) return undefined
    const slots = this.#runSlots
    const ofText = slots.findIndex((slot) => slot.key === key)
    if (ofText === -1) return undefined
    const texts: string[] = []
    let first: JsonObject | undefined
    let next = Number.NaN
    let to = from
    for (;;) {
      this.#number = next // of events without numbers, it stays the next
      const end = this.#read(text, to, slots, this.#runAfter)
      if (end === -1 || (first !== undefined && this.#number !== next && !Number.isNaN(next))) break
      first ??= this.#filledIn(template)
      next = this.#number + 1
      texts.push(this.#texts[ofText] ?? '')
      to = end
    }
    return first === undefined ? undefined : { event: { ...first, [key]: joined(texts) }, events: texts.length, to }
  }

  /** `data` was parsed to `event`. Events after it may be the same but for the values of `keys`. `head`: what is before the data. */
  learn(data: string, event: JsonObject, keys: readonly string[], head = ''): void {
    this.#event = undefined
    const found = keys.flatMap((key) => place(data, key, event[key]))
    if (found.length === 0 || found.length !== keys.filter((key) => event[key] !== undefined).length) return
    found.sort((a, b) => a.from - b.from)
    this.#slots = found.map(({ key, from, isText }, index) => {
      return { key, isText, before: copied(data.slice(found[index - 1]?.to ?? 0, from)) }
    })
    this.#after = copied(data.slice(found.at(-1)?.to ?? 0))
    this.#runSlots = this.#slots.map((slot, index) =>
      index === 0 ? { ...slot, before: copied(head + slot.before) } : slot,
    )
    this.#runAfter = copied(`${this.#after}\n\n`)
    this.#event = event
  }

  /** Reads the values of the event at `from`. Returns the index after it, or -1 if it does not match. */
  #read(text: string, from: number, slots: readonly Slot[], after: string): number {
    let at = from
    for (let index = 0; index < slots.length; index++) {
      const { before, isText } = slots[index] as Slot
      const start = at + before.length
      // Comparing slices is one operation; startsWith goes character by character and costs ten times that.
      if (text.slice(at, start) !== before) return -1
      at = isText ? text.indexOf('"', start) : this.#readNumber(text, start)
      if (at === -1) return -1
      if (!isText) continue
      const value = text.slice(start, at)
      if (!isPlain(value)) return -1 // I1
      this.#texts[index] = value
    }
    const end = at + after.length
    return text.slice(at, end) === after ? end : -1
  }

  #filledIn(template: JsonObject): JsonObject {
    const event: Record<string, unknown> = { ...template }
    for (const [index, { key, isText }] of this.#slots.entries()) {
      event[key] = isText ? copied(this.#texts[index] ?? '') : this.#number
    }
    return event
  }

  /** Returns where the digits from here on end; -1 if there are none, or if they are not a JSON number. */
  #readNumber(text: string, from: number): number {
    let at = from
    let number = 0
    for (let code = text.charCodeAt(at); code >= ZERO && code <= NINE; code = text.charCodeAt(++at))
      number = number * 10 + (code - ZERO)
    this.#number = number
    const digits = at - from
    const startsWithZero = digits > 1 && text.charCodeAt(from) === ZERO
    return digits === 0 || digits > DIGITS_MAX || startsWithZero ? -1 : at
  }
}

// ---- details ----

type Slot = {
  readonly key: string
  /** The text between the previous value and this one. */
  readonly before: string
  readonly isText: boolean
}

type Place = { readonly key: string; readonly isText: boolean; readonly from: number; readonly to: number }

/** The position of the value of `key` in the event. Empty if that would be a guess. */
function place(data: string, key: string, value: unknown): readonly Place[] {
  const name = `"${key}":`
  const at = data.indexOf(name)
  if (at === -1 || data.includes(name, at + 1)) return [] // I1: which of them it was would be a guess
  const isText = typeof value === 'string'
  if (!isText && !Number.isSafeInteger(value)) return []
  const literal = isText ? `"${value}"` : String(value)
  const start = data.startsWith(' ', at + name.length) ? at + name.length + 1 : at + name.length
  if (!data.startsWith(literal, start) || (isText && !isPlain(value))) return []
  const [from, to] = isText ? [start + 1, start + literal.length - 1] : [start, start + literal.length]
  return [{ key, isText, from, to }]
}

const ZERO = 0x30
const NINE = 0x39
const DIGITS_MAX = 15 // more may not be exact
