/**
 * Finds fields of a JSON object in its bytes, as they arrive. The rest is not parsed: a few kilobytes of compressed JSON can hold
 * millions of values, which take gigabytes and seconds to build.
 *
 * I1  What is held and parsed is bounded by the limits of the fields, whatever else the object holds, and taken from the request's share.
 * I2  What it finds in a valid object is what `JSON.parse` finds. It does not refuse every invalid one: whoever gets the bytes does that.
 * I3  What servers read in different ways is no object to it: a wanted field twice, or its name in other cases. Go's JSON takes `Model`
 *     for `model`, and the last of them counts.
 */

import { ENTRY_BYTES, HeldBytes, type MemoryShare, taking } from '@breakfall/wire/node'

export type FieldLimits = {
  /** Of the value's JSON. Absent: only its place is wanted. */
  readonly bytesMax?: number | undefined
  /** Objects, lists and their entries in it. */
  readonly valuesMax?: number | undefined
  /** Of a list: how many of its last elements are marked. */
  readonly marksMax?: number | undefined
}

/** Where a value begins and ends in the bytes. */
export type Place = {
  readonly from: number
  readonly to: number
  /** Of the bracket that ends it, if it is a list. */
  readonly listEnd: number | undefined
  /** There is nothing between its brackets. */
  readonly isEmpty: boolean
  /** Where its last elements end: each at a comma. Empty unless they were asked for. */
  readonly marks: readonly number[]
}

export type FoundFields = {
  readonly values: Readonly<Record<string, unknown>>
  readonly places: ReadonlyMap<string, Place>
  /** The brace that ends the object, and whether there is nothing before it. */
  readonly end: Pick<Place, 'to' | 'isEmpty'>
  /** Fields whose value is over its limit. They are not among the values. */
  readonly tooLarge: readonly string[]
}

/** Objects, lists and their entries in JSON. */
export function valuesIn(json: string): number {
  let values = 0
  for (let at = 0; at < json.length; at++) {
    const char = json.charCodeAt(at)
    if (char === COMMA || char === OBJECT || char === LIST) values++
    else if (char === QUOTE) at = closingQuote(json, at)
  }
  return values
}

/** What JSON takes once it is parsed, besides its characters. A few megabytes can hold millions of values, which take gigabytes. */
export const parsedBytes = (json: string): number => valuesIn(json) * ENTRY_BYTES

const PIECE_BYTES = 64 * 1024 // a socket rarely brings more
const KEY_BYTES_MAX = 256 // longer than any wanted name, even if all of it is escaped

type At = 'before' | 'key-or-end' | 'key' | 'in-key' | 'colon' | 'value' | 'in-value' | 'after' | 'broken'

export class JsonFields {
  readonly #wanted: ReadonlyMap<string, FieldLimits>
  readonly #inAnyCase: ReadonlySet<string>
  readonly #memory: MemoryShare
  readonly #places = new Map<string, Place>()
  readonly #found: Record<string, unknown> = {}
  readonly #tooLarge: string[] = []
  #at: At = 'before'
  #bytes: Buffer = Buffer.alloc(0)
  #offset = 0
  #end = -1
  #isEmptyObject = true
  // of the string we are in
  #isInString = false
  #isEscaped = false
  // of the field we are in
  #key = ''
  #limits: FieldLimits | undefined
  #kept: HeldBytes | undefined
  #from = 0
  #depth = 0
  #values = 0
  #isEmpty = true
  #listEnd: number | undefined
  #marks: number[] = []

  constructor(wanted: ReadonlyMap<string, FieldLimits>, memory: MemoryShare) {
    this.#wanted = wanted
    this.#inAnyCase = new Set(Array.from(wanted.keys(), upperCase))
    this.#memory = memory
  }

  push(chunk: Buffer): void {
    for (let from = 0; from < chunk.length; from += PIECE_BYTES) this.#read(chunk.subarray(from, from + PIECE_BYTES))
  }

  /** Undefined if it was not one object. I3 */
  done(): FoundFields | undefined {
    if (this.#at !== 'after') return undefined
    return {
      values: this.#found,
      places: this.#places,
      end: { to: this.#end, isEmpty: this.#isEmptyObject },
      tooLarge: this.#tooLarge,
    }
  }

  // ---- details ----

  #read(bytes: Buffer): void {
    this.#bytes = bytes
    // One character for each byte: searching a string is twice as fast as searching bytes.
    const text = bytes.toString('latin1')
    for (let at = 0; at < text.length && this.#at !== 'broken';) {
      if (this.#at === 'in-key') at = this.#inKey(text, at)
      else if (this.#at === 'in-value') at = this.#inValue(text, at)
      else at = this.#between(text, at)
    }
    this.#offset += bytes.length
  }

  /** Outside of keys and values: one byte that is not white space. */
  #between(text: string, from: number): number {
    let at = from
    while (at < text.length && isSpace(text.charCodeAt(at))) at++
    if (at === text.length) return at
    const byte = text.charCodeAt(at)
    const state = this.#at
    if (state === 'value') {
      // The value begins here, so its first byte is read again.
      this.#from = this.#offset + at
      this.#depth = this.#values = 0
      this.#isEmpty = true
      this.#listEnd = undefined
      this.#marks = []
      this.#at = byte === COMMA || byte === END_OBJECT ? 'broken' : 'in-value'
      return at
    }
    if (state === 'before' && byte === OBJECT) this.#at = 'key-or-end'
    else if ((state === 'key-or-end' || state === 'key') && byte === QUOTE) this.#beginKey()
    else if (state === 'key-or-end' && byte === END_OBJECT) this.#endObject(at)
    else if (state === 'colon' && byte === COLON) this.#at = 'value'
    else this.#at = 'broken'
    return at + 1
  }

  #beginKey(): void {
    this.#at = 'in-key'
    this.#isInString = true
    this.#isEmptyObject = false
    this.#key = ''
  }

  #inKey(text: string, from: number): number {
    const at = this.#stringEnd(text, from)
    if (this.#key.length <= KEY_BYTES_MAX) this.#key += text.slice(from, Math.min(at, from + KEY_BYTES_MAX + 1))
    if (this.#isInString) return at
    this.#key = unescaped(Buffer.from(this.#key.slice(0, -1), 'latin1').toString())
    this.#limits = this.#wanted.get(this.#key)
    const isOtherCase = this.#limits === undefined && this.#inAnyCase.has(upperCase(this.#key))
    this.#kept = this.#limits?.bytesMax === undefined ? undefined : new HeldBytes(taking(this.#memory))
    const isSecond = this.#limits !== undefined && this.#places.has(this.#key)
    this.#at = isOtherCase || isSecond ? 'broken' : 'colon' // I3
    return at
  }

  #inValue(text: string, from: number): number {
    let [at, depth, values, isEmpty] = [from, this.#depth, this.#values, this.#isEmpty]
    const marksMax = this.#limits?.marksMax ?? 0
    let isOver = false
    if (this.#isInString) at = this.#stringEnd(text, at)
    while (at < text.length && !isOver) {
      const byte = text.charCodeAt(at)
      if (byte === QUOTE) {
        isEmpty = false
        this.#isInString = true
        at = this.#stringEnd(text, at + 1)
        continue
      }
      if (byte === COMMA) {
        isOver = depth === 0
        values++
        if (depth === 1 && marksMax > 0) this.#mark(this.#offset + at, marksMax)
      } else if (byte === OBJECT || byte === LIST) {
        if (depth > 0) isEmpty = false
        depth++
        values++
      } else if (byte === END_OBJECT || byte === END_LIST) {
        isOver = depth === 0
        depth--
        if (depth === 0 && byte === END_LIST) this.#listEnd = this.#offset + at
      } else if (byte > SPACE) isEmpty = false
      if (!isOver) at++
    }
    this.#depth = depth
    this.#values = values
    this.#isEmpty = isEmpty
    if (isOver) return this.#endValue(text, from, at)
    this.#keep(from, at)
    return at
  }

  #endValue(text: string, from: number, at: number): number {
    this.#keep(from, at)
    if (this.#limits !== undefined) {
      const to = this.#offset + at
      const [listEnd, isEmpty, marks] = [this.#listEnd, this.#isEmpty, this.#marks]
      this.#places.set(this.#key, { from: this.#from, to, listEnd, isEmpty, marks })
      if (!this.#parse(this.#limits)) this.#at = 'broken'
    }
    if (this.#at === 'broken') return at
    if (text.charCodeAt(at) === COMMA) this.#at = 'key'
    else if (text.charCodeAt(at) === END_OBJECT) this.#endObject(at)
    else this.#at = 'broken'
    return at + 1
  }

  /** Twice as many are kept, because dropping them one by one is slow. */
  #mark(at: number, marksMax: number): void {
    this.#marks.push(at)
    if (this.#marks.length >= 2 * marksMax) this.#marks = this.#marks.slice(-marksMax)
  }

  /** False if it is not JSON. */
  #parse({ bytesMax = 0, valuesMax = Number.POSITIVE_INFINITY }: FieldLimits): boolean {
    const kept = this.#kept
    this.#kept = undefined
    if (kept === undefined) return true
    try {
      if (kept.length > bytesMax || this.#values > valuesMax) this.#tooLarge.push(this.#key)
      else {
        taking(this.#memory)(kept.length * 2 + (this.#values + 1) * ENTRY_BYTES) // I1
        const [first = Buffer.alloc(0), ...more] = kept.blocks()
        const json = more.length === 0 ? first : Buffer.concat([first, ...more])
        this.#found[this.#key] = JSON.parse(json.toString())
      }
      return true
    } catch (thrown) {
      if (thrown instanceof SyntaxError) return false
      throw thrown
    } finally {
      this.#memory.give(kept.memory)
    }
  }

  #endObject(at: number): void {
    this.#end = this.#offset + at
    this.#at = 'after'
  }

  /** One byte over the limit is enough to know. */
  #keep(from: number, to: number): void {
    if (this.#kept === undefined) return
    const room = (this.#limits?.bytesMax ?? 0) + 1 - this.#kept.length
    if (room > 0) this.#kept.add(this.#bytes.subarray(from, Math.min(to, from + room)))
  }

  /** Behind the quote that ends the string, or the end of the chunk. */
  #stringEnd(text: string, from: number): number {
    for (let at = from; ;) {
      const quote = text.indexOf('"', at)
      const end = quote === -1 ? text.length : quote
      // After an odd number of backslashes, the quote is escaped, or what the next piece begins with.
      let slash = end
      while (slash > at && text.charCodeAt(slash - 1) === BACKSLASH) slash--
      const isOdd = (end - slash) % 2 === 1
      const isEscaped = slash === from && this.#isEscaped ? !isOdd : isOdd
      if (quote === -1) {
        this.#isEscaped = isEscaped
        return end
      }
      at = quote + 1
      if (!isEscaped) {
        this.#isInString = this.#isEscaped = false
        return at
      }
    }
  }
}

/** Of the string that begins here, or the end of the text. */
function closingQuote(json: string, open: number): number {
  for (let at = json.indexOf('"', open + 1); at !== -1; at = json.indexOf('"', at + 1)) {
    let slash = at
    while (json.charCodeAt(slash - 1) === BACKSLASH) slash--
    if ((at - slash) % 2 === 0) return at
  }
  return json.length
}

/** As Go compares names: by simple case folding, in which the long s is an s and the Kelvin sign a k. */
const upperCase = (name: string): string => name.replaceAll('\u212a', 'k').toUpperCase()

function unescaped(key: string): string {
  if (!key.includes('\\')) return key
  try {
    return String(JSON.parse(`"${key}"`))
  } catch {
    return ''
  }
}

const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const LIST = 0x5b
const BACKSLASH = 0x5c
const END_LIST = 0x5d
const OBJECT = 0x7b
const END_OBJECT = 0x7d

const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
