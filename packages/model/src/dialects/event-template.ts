/**
 * Reads a numbered event that differs from an earlier one only in its number and its texts, without parsing it again. Nearly
 * every event of a streamed response is like that, and parsing is most of the cost of reading one.
 *
 * I1  Exact or nothing: an event matches only if its JSON would parse to what is returned. A text is the content of a string
 *     literal without backslashes and control characters, so it stands for itself; a number has digits only.
 * I2  The strings kept are copies, not slices that would keep the whole read of the socket alive.
 */
import type { JsonObject } from '../json.ts'
import { copied, isPlain } from './chunk-template.ts'

export class EventTemplate {
  #event: JsonObject | undefined
  #slots: readonly Slot[] = []
  #after = ''

  /** The event, or undefined if it has to be parsed. */
  match(data: string): JsonObject | undefined {
    if (this.#event === undefined) return undefined
    const event: Record<string, unknown> = { ...this.#event }
    let at = 0
    for (const { key, before, isText } of this.#slots) {
      const from = at + before.length
      // Comparing slices is one operation; startsWith goes character by character and costs ten times that.
      if (data.slice(at, from) !== before) return undefined
      at = isText ? data.indexOf('"', from) : digitsEnd(data, from)
      if (at === -1) return undefined
      const value = data.slice(from, at)
      if (isText && !isPlain(value)) return undefined // I1
      event[key] = isText ? copied(value) : Number(value)
    }
    return data.slice(at) === this.#after ? event : undefined
  }

  /** `data` was parsed to `event`. Events after it may be the same but for the values of `keys`. */
  learn(data: string, event: JsonObject, keys: readonly string[]): void {
    this.#event = undefined
    const found = keys.flatMap((key) => place(data, key, event[key]))
    if (found.length !== keys.filter((key) => event[key] !== undefined).length) return
    found.sort((a, b) => a.from - b.from)
    this.#slots = found.map(({ key, from, isText }, index) => {
      return { key, isText, before: copied(data.slice(found[index - 1]?.to ?? 0, from)) }
    })
    this.#after = copied(data.slice(found.at(-1)?.to ?? 0))
    this.#event = event
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

/** Where the digits from here on end; -1 if there are none, or if they are not a JSON number. */
function digitsEnd(data: string, from: number): number {
  let at = from
  while (isDigit(data.charCodeAt(at))) at++
  const length = at - from
  const startsWithZero = length > 1 && data.charCodeAt(from) === ZERO
  return length === 0 || length > DIGITS_MAX || startsWithZero ? -1 : at
}

const ZERO = 0x30
const DIGITS_MAX = 15 // more may not be exact
const isDigit = (code: number): boolean => code >= ZERO && code <= 0x39
