/**
 * The conversation in a request's body, as a list of its elements: the messages, items or contents. A repair makes another list, and knows
 * of every element whether it is still the client's own bytes.
 */
import type { HistoryCause } from '@breakfall/faults/internal'
import type { RelayApiName } from '../contract/names.ts'
import {
  arranged,
  type Edit,
  edited,
  isList,
  type Room,
  roomForSpans,
  rootOf,
  type Span,
  spanAt,
  stringIn,
  Unreadable,
  valueOf,
  written,
} from './json-spans.ts'

/** Where each API has its conversation. */
export const LIST_OF: Readonly<Partial<Record<RelayApiName, string>>> = {
  'anthropic-messages': 'messages',
  'openai-chat': 'messages',
  'openai-responses': 'input',
  gemini: 'contents',
  'bedrock-messages': 'messages', // Claude, with Anthropic's body
}

const ELEMENT_DEPTH = 8 // an image in the result of a tool is seven levels below the list
/** Other fields that are read. */
const DEPTHS: readonly (readonly [string, number])[] = [
  ['system', 3],
  ['tools', 2],
  ['thinking', 1],
]

/** One message, item or content. A value: an edit makes another element. */
export class Element {
  /** Its index in the client's list. Undefined if the repair added it. */
  readonly at: number | undefined
  readonly #text: string
  readonly #span: Span
  /** It is not what the client sent. */
  readonly isChanged: boolean

  constructor(text: string, span: Span, at: number | undefined, isChanged: boolean) {
    this.#text = text
    this.#span = span
    this.at = at
    this.isChanged = isChanged
  }

  /** A new one, from its JSON. */
  static of(json: string, at?: number): Element {
    return new Element(json, spanAt(json, 0, ELEMENT_DEPTH, roomForSpans()), at, true)
  }

  get json(): string {
    return this.jsonOf(this.#span)
  }

  get whole(): Span {
    return this.#span
  }

  get(...names: readonly string[]): Span | undefined {
    return valueOf(this.#span, ...names)
  }

  list(...names: readonly string[]): readonly Span[] {
    return this.get(...names)?.items ?? []
  }

  /** The string under the key. */
  string(span: Span | undefined, ...names: readonly string[]): string | undefined {
    return stringIn(this.#text, valueOf(span, ...names))
  }

  text(...names: readonly string[]): string | undefined {
    return this.string(this.#span, ...names)
  }

  /** The JSON of a value in it. */
  jsonOf({ from, to }: Span): string {
    return this.#text.slice(from, to)
  }

  with(edits: readonly Edit[]): Element {
    if (edits.length === 0) return this
    const { from, to } = this.#span
    const own = edits.map((edit) => ({ ...edit, from: edit.from - from, to: edit.to - from }))
    return Element.of(edited(this.#text.slice(from, to), own), this.at)
  }

  /** The same bytes at another place of the list. */
  moved(): Element {
    return Element.of(this.json)
  }
}

export type History = {
  readonly api: RelayApiName
  /** The body that is repaired. */
  readonly text: string
  readonly root: Span
  readonly list: Span
  readonly elements: readonly Element[]
  /** Edits outside the list. */
  readonly outside: readonly Edit[]
}

/** What is wrong, and with which element. `isFixed` is false if no edit can make it right. */
export type Finding = { readonly cause: HistoryCause; readonly at: number | undefined; readonly isFixed: boolean }
export type Note = (cause: HistoryCause, element?: Pick<Element, 'at'>, isFixed?: boolean) => void

/** Throws `Unreadable`. */
export function historyIn(api: RelayApiName, text: string, room: Room = roomForSpans()): History {
  const name = LIST_OF[api] ?? ''
  const depths = new Map([...DEPTHS, [name, ELEMENT_DEPTH + 1] as const])
  const root = rootOf(text, depths, room)
  const list = valueOf(root, name)
  if (!isList(list)) throw new Unreadable('no list')
  const elements = list.items.map((span, at) => {
    if (span.kind !== 'object') throw new Unreadable('an element that is no object')
    return new Element(text, span, at, false)
  })
  return { api, text, root, list, elements, outside: [] }
}

/** What was changed, in places of the body. */
export function editsOf({ text, list, elements, outside }: History): readonly Edit[] {
  const parts = elements.map((element) => ({
    at: element.at,
    text: element.isChanged ? element.json : undefined,
  }))
  return [...arranged(list, parts), ...outside].map((edit) => smallest(text, edit))
}

export const withElements = (history: History, elements: readonly Element[]): History =>
  elements.length === history.elements.length && elements.every((element, at) => element === history.elements[at])
    ? history
    : { ...history, elements }

/** Each element as this makes it; undefined drops it. */
export const mapped = (history: History, change: (element: Element, at: number) => Element | undefined): History =>
  withElements(
    history,
    history.elements.flatMap((element, at) => change(element, at) ?? []),
  )

export const isBlank = (text: string | undefined): boolean => text !== undefined && text.trim() === ''

/** A text that stands for what is not there any more. */
export const TEXTS = {
  /** The result of a call that has none. It never says more than that. */
  unknown: 'This call was interrupted. Whether it ran, and its result, are unknown. Check before you repeat it.',
  leftOut: '[A tool result whose call is no longer part of this conversation was left out.]',
  moved: '[The tool result that was here is next to its call now.]',
  step: '(The step was interrupted.)',
} as const

export const textBlock = (text: string): string => written({ type: 'text', text })

// ---- details ----

/** Without what stays the same at both ends. */
function smallest(text: string, { from, to, text: added }: Edit): Edit {
  const most = Math.min(to - from, added.length)
  let head = 0
  while (head < most && text.charCodeAt(from + head) === added.charCodeAt(head)) head++
  let tail = 0
  while (tail < most - head && text.charCodeAt(to - tail - 1) === added.charCodeAt(added.length - tail - 1)) tail++
  return { from: from + head, to: to - tail, text: added.slice(head, added.length - tail) }
}
