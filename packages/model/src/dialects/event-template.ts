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
  /** Characters after the last value. */
  #charsAfter = 0
  readonly #form = new RunPattern()
  /** The same for events in a stream, and how many characters are around their data. */
  readonly #runs = new RunPattern()
  #charsHead = 0
  #isNumbered = false
  /** The values of the event read last: its texts by slot, and its number. */
  readonly #texts: string[] = []
  #number = Number.NaN

  /** The event, or undefined if it has to be parsed. */
  match(data: string): JsonObject | undefined {
    const event = this.#event
    if (event === undefined || this.#form.end(data, 0) !== data.length) return undefined
    return this.#read(data, 0) === data.length ? this.#filledIn(event) : undefined // one event, not two in a row
  }

  /** The events from `from` on, up to the first that has to be parsed or has another number than the next. `key`: their text. */
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
      const after = this.#read(text, to + this.#charsHead) + LINES_END.length
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
    const before = found.map(({ from }, index) => data.slice(found[index - 1]?.to ?? 0, from))
    const after = data.slice(found.at(-1)?.to ?? 0)
    const forms = found.map(({ isText }, index) => fixed(before[index] ?? '') + FORMS[isText ? 'textOrNone' : 'number'])
    const form = forms.join('') + fixed(after)
    this.#form.learn(form)
    this.#runs.learn(fixed(head) + form + fixed(LINES_END))
    this.#slots = found.map(({ key, isText }, index) => ({ key, isText, charsBefore: before[index]?.length ?? 0 }))
    this.#charsAfter = after.length
    this.#charsHead = head.length
    this.#isNumbered = found.some(({ isText }) => !isText)
    this.#event = event
  }

  /** Reads the values of the event whose data is at `from` and has the form. Returns the index after the data. */
  #read(text: string, from: number): number {
    let at = from
    for (let index = 0; index < this.#slots.length; index++) {
      const { charsBefore, isText } = this.#slots[index] as Slot
      const start = at + charsBefore
      at = isText ? text.indexOf('"', start) : this.#readNumber(text, start)
      if (isText) this.#texts[index] = text.slice(start, at)
    }
    return at + this.#charsAfter
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
  /** Characters between the previous value and this one. */
  readonly charsBefore: number
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
/** What ends an event in a stream. */
const LINES_END = '\n\n'
