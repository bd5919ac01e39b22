/**
 * Reads a numbered event that differs from an earlier one only in its number and its texts, without parsing it again. Nearly
 * every event of a streamed response is like that, and parsing is most of the cost of reading one.
 *
 * I1  Exact or nothing: an event matches only if its JSON would parse to what is returned. A text is the content of a string
 *     literal without backslashes and control characters, so it stands for itself; a number has digits only.
 * I2  The strings kept are copies, not slices that would keep the whole read of the socket alive.
 */
import type { JsonObject } from '../lib/json.ts'
import { copied, isPlain, joined, LINES_END } from './chunk-template.ts'
import { fixed, FORMS, RunPattern } from './run-pattern.ts'

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
  /** The same for events in a stream, and what is before their data. */
  readonly #runs = new RunPattern()
  #head = ''
  #isNumbered = false
  /** The values of the event read last: its texts by slot, and its number. */
  readonly #texts: string[] = []
  #number = Number.NaN

  /** The event, or undefined if it has to be parsed. */
  match(data: string): JsonObject | undefined {
    const event = this.#event
    if (event === undefined || !this.#hasForm(data)) return undefined
    this.#runs.seen(() => this.#form())
    return this.#filledIn(event)
  }

  /**
   * The events from `from` on, up to the first that has to be parsed or has another number than the next; none before a few
   * have matched. `key`: their text.
   */
  run(text: string, from: number, key: string): EventRun | undefined {
    const template = this.#event
    const ofText = this.#slots.findIndex((slot) => slot.key === key)
    const end = template === undefined || ofText === -1 ? from : this.#runs.end(text, from)
    if (template === undefined || end === from) return undefined
    const texts: string[] = []
    let first: Record<string, unknown> | undefined
    let to = from
    while (to < end) {
      const next = this.#number + 1
      const after = this.#read(text, to + this.#head.length) + LINES_END.length
      if (first !== undefined && this.#isNumbered && this.#number !== next) break
      first ??= this.#filledIn(template, key)
      texts.push(this.#texts[ofText] ?? '')
      to = after
    }
    if (first === undefined) return undefined
    first[key] = joined(texts)
    return { event: first, events: texts.length, to }
  }

  /** `data` was parsed to `event`. Events after it may be the same but for the values of `keys`. `head`: what is before the data. */
  learn(data: string, event: JsonObject, keys: readonly string[], head = ''): void {
    this.#event = undefined
    const found = keys.flatMap((key) => place(data, key, event[key]))
    if (found.length === 0 || found.length !== keys.filter((key) => event[key] !== undefined).length) return
    found.sort((a, b) => a.from - b.from)
    const slots = found.map(({ key, isText, from }, index) => {
      return { key, isText, before: copied(data.slice(found[index - 1]?.to ?? 0, from)) }
    })
    const after = copied(data.slice(found.at(-1)?.to ?? 0))
    if (after !== this.#after || head !== this.#head || !isSame(slots, this.#slots)) this.#runs.forget()
    this.#slots = slots
    this.#after = after
    this.#head = head
    this.#isNumbered = found.some(({ isText }) => !isText)
    this.#event = event
  }

  /** One event of the form, as the source of a pattern. */
  #form(): string {
    const values = this.#slots.map(({ before, isText }) => fixed(before) + FORMS[isText ? 'textOrNone' : 'number'])
    return fixed(this.#head) + values.join('') + fixed(this.#after + LINES_END)
  }

  /** Whether the data is one event of the form, whose values are then the ones read last. */
  #hasForm(data: string): boolean {
    let at = 0
    for (let index = 0; index < this.#slots.length; index++) {
      const { before, isText } = this.#slots[index] as Slot
      const start = at + before.length
      // Comparing slices is one operation; startsWith goes character by character and costs ten times that.
      if (data.slice(at, start) !== before) return false
      at = isText ? data.indexOf('"', start) : this.#readNumber(data, start)
      if (at === -1) return false
      const value = data.slice(start, at)
      if (isText ? !isPlain(value) : !NUMBER.test(value)) return false // I1
      if (isText) this.#texts[index] = value
    }
    return data.slice(at) === this.#after
  }

  /** Reads the values of the event whose data is at `from` and has the form. Returns the index after the data. */
  #read(text: string, from: number): number {
    let at = from
    for (let index = 0; index < this.#slots.length; index++) {
      const { before, isText } = this.#slots[index] as Slot
      const start = at + before.length
      at = isText ? text.indexOf('"', start) : this.#readNumber(text, start)
      if (isText) this.#texts[index] = text.slice(start, at)
    }
    return at + this.#after.length
  }

  /** The event with the values read last, but for that of `except`. */
  #filledIn(template: JsonObject, except?: string): Record<string, unknown> {
    const event: Record<string, unknown> = { ...template }
    for (let index = 0; index < this.#slots.length; index++) {
      const { key, isText } = this.#slots[index] as Slot
      if (key !== except) event[key] = isText ? copied(this.#texts[index] ?? '') : this.#number // I2
    }
    return event
  }

  /** Returns the index after the digits. */
  #readNumber(text: string, from: number): number {
    let at = from
    let number = 0
    for (let code = text.charCodeAt(at); code >= ZERO && code <= NINE; code = text.charCodeAt(++at))
      number = number * 10 + (code - ZERO)
    this.#number = number
    return at
  }
}

// ---- details ----

type Slot = {
  readonly key: string
  /** The text between the previous value and this one. */
  readonly before: string
  readonly isText: boolean
}

const isSame = (slots: readonly Slot[], others: readonly Slot[]): boolean =>
  slots.length === others.length &&
  slots.every(({ key, before, isText }, index) => {
    const other = others[index]
    return other !== undefined && key === other.key && before === other.before && isText === other.isText
  })

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
const NUMBER = new RegExp(`^${FORMS.number}$`)
