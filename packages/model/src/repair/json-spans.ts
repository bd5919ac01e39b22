/**
 * Where the values of a JSON text are. What no edit touches keeps its bytes: `1.0` stays `1.0`, and a number of twenty digits keeps all
 * of them, which `JSON.parse` and `JSON.stringify` would not do.
 *
 * The text has one character for each byte (latin1): a place in it is a place in the bytes, and searching it is fast.
 *
 * I1  What it builds is bounded: values below `depth`, and under keys that hold a program's own data, are skipped as a whole.
 * I2  An object with the same key twice cannot be read for certain, because servers differ in which one counts.
 */

/** What cannot be read for certain is not repaired. */
export class Unreadable extends Error {}

export type Span = {
  readonly from: number
  readonly to: number
  readonly kind: 'object' | 'list' | 'string' | 'other'
  /** Of an object that was not skipped. */
  readonly entries: readonly Entry[]
  /** Of a list that was not skipped. */
  readonly items: readonly Span[]
}

export type Entry = { readonly name: string; readonly from: number; readonly value: Span }

export type Edit = { readonly from: number; readonly to: number; readonly text: string }

/** Counts what is built, over all calls of one reading. */
export type Room = { spans: number }

const SPANS_MAX = 300_000 // 30 MB; a conversation of 10,000 messages has 200,000
export const roomForSpans = (): Room => ({ spans: SPANS_MAX })

const NONE: readonly never[] = []

export function spanAt(text: string, from: number, depth: number, room: Room): Span {
  const at = afterSpace(text, from)
  if (room.spans-- <= 0) throw new Unreadable('too many values')
  switch (text.charCodeAt(at)) {
    case OBJECT:
      return depth === 0 ? skipped(text, at) : objectAt(text, at, (name) => (OPAQUE.has(name) ? 0 : depth - 1), room)
    case LIST:
      return depth === 0 ? skipped(text, at) : listAt(text, at, depth, room)
    case QUOTE:
      return leaf('string', at, stringEnd(text, at))
    default: {
      SCALAR.lastIndex = at
      if (!SCALAR.test(text)) throw new Unreadable('no value')
      return leaf('other', at, SCALAR.lastIndex)
    }
  }
}

/** The object that the text is, with its entries to these depths. All others are skipped. */
export function rootOf(text: string, depths: ReadonlyMap<string, number>, room: Room): Span {
  const at = afterSpace(text, 0)
  if (text.charCodeAt(at) !== OBJECT) throw new Unreadable('no object')
  const root = objectAt(text, at, (name) => depths.get(name) ?? 0, room)
  if (afterSpace(text, root.to) !== text.length) throw new Unreadable('more than an object')
  return root
}

export const isList = (span: Span | undefined): span is Span => span?.kind === 'list'

export function valueOf(span: Span | undefined, ...names: readonly string[]): Span | undefined {
  let value = span
  for (const name of names) {
    const entries: readonly Entry[] = value?.entries ?? NONE
    value = undefined
    for (const entry of entries)
      if (entry.name === name) {
        ;({ value } = entry)
        break
      }
  }
  return value
}

/** The string; undefined for any other value. */
export function stringIn(text: string, span: Span | undefined): string | undefined {
  if (span?.kind !== 'string') return undefined
  const raw = text.slice(span.from + 1, span.to - 1)
  return PLAIN.test(raw) ? raw : decoded(`"${raw}"`)
}

/** JSON in the form of the text: one character for each byte. */
export const written = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('latin1')

/** The same text with these edits, which do not overlap. */
export function edited(text: string, edits: readonly Edit[]): string {
  let out = ''
  let at = 0
  for (const { from, to, text: added } of edits.toSorted((one, other) => one.from - other.from || one.to - other.to)) {
    out += text.slice(at, from) + added
    at = to
  }
  return out + text.slice(at)
}

/** An entry of a list as it will be: one of the list's own by its index, with other text, or a new one. */
export type Part = { readonly at: number | undefined; readonly text?: string | undefined }

/** The list with these parts. The space between two that stay neighbours stays, too. */
export function arranged(list: Span, parts: readonly Part[]): readonly Edit[] {
  const { items } = list
  const pieces: (string | { readonly from: number; readonly to: number })[] = []
  let before = -1
  for (const [index, { at = -2, text }] of parts.entries()) {
    const item = items[at]
    const gapFrom = index === 0 ? list.from + 1 : (items[before]?.to ?? -1)
    if (item !== undefined && at === before + 1 && gapFrom >= 0) pieces.push({ from: gapFrom, to: item.from })
    else if (index > 0) pieces.push(',')
    pieces.push(text ?? item ?? '')
    before = at
  }
  pieces.push({ from: items.at(-1)?.to ?? list.from + 1, to: list.to - 1 })
  const edits: Edit[] = []
  let [at, pending] = [list.from + 1, '']
  for (const piece of pieces) {
    if (typeof piece === 'string') pending += piece
    else {
      if (pending !== '' || piece.from > at) edits.push({ from: at, to: piece.from, text: pending })
      ;[at, pending] = [piece.to, '']
    }
  }
  return edits
}

/** Without these entries. */
export const withoutItems = (list: Span, drops: (item: Span, index: number) => boolean): readonly Edit[] =>
  arranged(
    list,
    [...list.items.entries()].flatMap(([at, item]) => (drops(item, at) ? [] : [{ at }])),
  )

export function withoutKey(object: Span, name: string): readonly Edit[] {
  const at = object.entries.findIndex((entry) => entry.name === name)
  const entry = object.entries[at]
  if (entry === undefined) return []
  const [before, after] = [object.entries[at - 1], object.entries[at + 1]]
  if (before !== undefined) return [{ from: before.value.to, to: entry.value.to, text: '' }]
  return [{ from: entry.from, to: after?.from ?? entry.value.to, text: '' }]
}

/** With this value, in place of what is under the key or behind all others. */
export function withKey(object: Span, name: string, json: string): Edit {
  const value = valueOf(object, name)
  if (value !== undefined) return { from: value.from, to: value.to, text: json }
  const at = object.entries.at(-1)?.value.to ?? object.from + 1
  return { from: at, to: at, text: `${object.entries.length === 0 ? '' : ','}"${name}":${json}` }
}

// ---- details ----

const leaf = (kind: 'string' | 'other', from: number, to: number): Span => ({ from, to, kind, entries: NONE, items: NONE }) // prettier-ignore

/** Data of programs: their arguments and results may hold anything, the same key twice included. */
const OPAQUE: ReadonlySet<string> = new Set(['input', 'args', 'response', 'parameters', 'input_schema', 'metadata'])

function objectAt(text: string, from: number, depthOf: (name: string) => number, room: Room): Span {
  const entries: Entry[] = []
  const names = new Set<string>()
  let at = afterSpace(text, from + 1)
  if (text.charCodeAt(at) !== END_OBJECT)
    for (;;) {
      const end = text.charCodeAt(at) === QUOTE ? stringEnd(text, at) : at
      const name = stringIn(text, leaf('string', at, end))
      const colon = afterSpace(text, end)
      if (name === undefined || end === at || text.charCodeAt(colon) !== COLON) throw new Unreadable('no key')
      if (names.has(name)) throw new Unreadable('a key twice') // I2
      names.add(name)
      const value = spanAt(text, colon + 1, depthOf(name), room)
      entries.push({ name, from: at, value })
      const next = afterSpace(text, value.to)
      at = afterSpace(text, next + 1)
      if (text.charCodeAt(next) === COMMA) continue
      if (text.charCodeAt(next) !== END_OBJECT) throw new Unreadable('no end of an object')
      return { from, to: next + 1, kind: 'object', entries, items: NONE }
    }
  return { from, to: at + 1, kind: 'object', entries, items: NONE }
}

function listAt(text: string, from: number, depth: number, room: Room): Span {
  const items: Span[] = []
  let at = afterSpace(text, from + 1)
  if (text.charCodeAt(at) !== END_LIST)
    for (;;) {
      const item = spanAt(text, at, depth - 1, room)
      items.push(item)
      const next = afterSpace(text, item.to)
      at = next + 1
      if (text.charCodeAt(next) === COMMA) continue
      if (text.charCodeAt(next) !== END_LIST) throw new Unreadable('no end of a list')
      return { from, to: at, kind: 'list', entries: NONE, items }
    }
  return { from, to: at + 1, kind: 'list', entries: NONE, items }
}

/** An object or a list of which only the place is wanted. */
function skipped(text: string, from: number): Span {
  let depth = 0
  for (let at = from; at < text.length; at++) {
    const byte = text.charCodeAt(at)
    if (byte === QUOTE) at = stringEnd(text, at) - 1
    else if (byte === OBJECT || byte === LIST) depth++
    else if ((byte === END_OBJECT || byte === END_LIST) && --depth === 0) {
      const kind = text.charCodeAt(from) === OBJECT ? 'object' : 'list'
      return { from, to: at + 1, kind, entries: NONE, items: NONE }
    }
  }
  throw new Unreadable('no end')
}

/** Behind the quote that ends the string. */
function stringEnd(text: string, open: number): number {
  for (let quote = text.indexOf('"', open + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let slash = quote
    while (text.charCodeAt(slash - 1) === BACKSLASH) slash--
    if ((quote - slash) % 2 === 0) return quote + 1
  }
  throw new Unreadable('no end of a string')
}

function afterSpace(text: string, from: number): number {
  let at = from
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

function decoded(literal: string): string {
  try {
    return String(JSON.parse(Buffer.from(literal, 'latin1').toString()))
  } catch (cause) {
    throw new Unreadable('no string', { cause })
  }
}

const SCALAR = /[^\s,\]}:"]+/y
/** Every character stands for itself. */
const PLAIN = /^[ !#-[\]-~]*$/
const isSpace = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const LIST = 0x5b
const BACKSLASH = 0x5c
const END_LIST = 0x5d
const OBJECT = 0x7b
const END_OBJECT = 0x7d
