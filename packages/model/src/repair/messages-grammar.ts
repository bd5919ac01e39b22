/**
 * Anthropic's messages: each assistant message with `tool_use` blocks is followed by a message of the user that has one `tool_result` for
 * each of them at its start, and nothing is blank.
 */
import { oversizedImages } from './images.ts'
import { Element, type History, isBlank, mapped, type Note, TEXTS, textBlock, withElements } from './history.ts'
import {
  arranged,
  type Edit,
  isList,
  type Part,
  type Span,
  valueOf,
  withKey,
  withoutItems,
  withoutKey,
  written,
} from './json-spans.ts'
import type { Grammar, Told } from './grammar.ts'

export const messagesGrammar: Grammar = {
  mend: (history, note) => withoutSpareMarks(withoutBlanks(paired(uniqueCalls(history, note), note), note), note),
  named: {
    server_result_without_call: serverResults,
    thinking_altered: withoutThoughts('thinking_altered'),
    thinking_unverifiable: withoutThoughts('thinking_unverifiable'),
    thinking_unbound: withoutThoughts('thinking_unbound'),
    thinking_required: withoutThinking,
    trailing_space: trimmed,
    image_too_large: withoutLargeImages,
  },
}

// ---- calls and results ----

/** Messages that take turns: a `system` message in between is none. */
const isTurn = (message: Element): boolean => message.text('role') !== 'system'
const isAssistant = (message: Element): boolean => message.text('role') === 'assistant'

type Block = { readonly index: number; readonly span: Span; readonly id: string }

function blocksOf(message: Element, type: string, idKey: string): readonly Block[] {
  return message.list('content').flatMap((span, index) => {
    if (message.string(span, 'type') !== type) return []
    return { index, span, id: message.string(span, idKey) ?? '' }
  })
}

/** A conversation is looked through several times, and nearly all of its messages stay the same. */
const known = new WeakMap<Element, { readonly calls: readonly Block[]; readonly results: readonly Block[] }>()
function pairsOf(message: Element): { readonly calls: readonly Block[]; readonly results: readonly Block[] } {
  let pairs = known.get(message)
  if (pairs === undefined) {
    const isCaller = isAssistant(message)
    pairs = {
      calls: isCaller ? blocksOf(message, 'tool_use', 'id') : [],
      results: isCaller ? [] : blocksOf(message, 'tool_result', 'tool_use_id'),
    }
    known.set(message, pairs)
  }
  return pairs
}
const callsOf = (message: Element): readonly Block[] => pairsOf(message).calls
const resultsOf = (message: Element): readonly Block[] => pairsOf(message).results

type Call = Block & { readonly from: number; result: (Block & { readonly from: number }) | undefined }

/** Each result belongs to the nearest call before it, in order if that message has the id twice, or to an open one behind it. */
function callsIn(elements: readonly Element[]): {
  readonly calls: readonly Call[]
  readonly spare: ReadonlySet<Span>
  readonly repeated: ReadonlySet<Span>
} {
  const calls: Call[] = []
  const [spare, repeated] = [new Set<Span>(), new Set<Span>()]
  /** The calls with this id in the nearest message that has any, and how many of them have their result. */
  const nearest = new Map<string, { readonly calls: Call[]; readonly from: number; answered: number }>()
  const early: (Block & { readonly from: number })[] = []
  for (const [from, message] of elements.entries()) {
    for (const block of callsOf(message)) {
      const call: Call = { ...block, from, result: undefined }
      calls.push(call)
      const same = nearest.get(block.id)
      if (same?.from === from) same.calls.push(call)
      else nearest.set(block.id, { calls: [call], from, answered: 0 })
    }
    for (const block of resultsOf(message)) {
      const same = nearest.get(block.id)
      const call = same?.calls[same.answered]
      if (same === undefined) early.push({ ...block, from })
      else if (call === undefined) repeated.add(block.span)
      else {
        call.result = { ...block, from }
        same.answered++
      }
    }
  }
  const open = Map.groupBy(calls.filter(({ result }) => result === undefined).toReversed(), ({ id }) => id)
  for (const block of early) {
    const later = open.get(block.id)?.pop()
    if (later === undefined) spare.add(block.span)
    else later.result = block
  }
  return { calls, spare, repeated }
}

/** No id twice. A message that is there twice is left out; any other second call gets another id. */
function uniqueCalls(history: History, note: Note): History {
  const kept = history.elements.filter((message, at) => {
    const before = history.elements[at - 1]
    const isAgain = callsOf(message).length > 0 && before?.json === message.json
    if (isAgain) note('call_duplicate', message)
    return !isAgain
  })
  const { calls } = callsIn(kept)
  const ids = new Map<string, number>()
  for (const { id } of calls) ids.set(id, 1)
  const seen = new Set<string>()
  const edits = new Map<number, Edit[]>()
  const change = (at: number, edit: Edit): void => {
    const known = edits.get(at)
    if (known === undefined) edits.set(at, [edit])
    else known.push(edit)
  }
  for (const { id, from, span, result } of calls) {
    if (!seen.has(id)) {
      seen.add(id)
      continue
    }
    note('call_duplicate', kept[from])
    let count = ids.get(id) ?? 1
    do count++
    while (ids.has(`${id}_${count}`))
    ids.set(id, count)
    const other = written(`${id}_${count}`)
    change(from, withKey(span, 'id', other))
    if (result !== undefined) change(result.from, withKey(result.span, 'tool_use_id', other))
  }
  return withElements(
    history,
    kept.map((message, at) => message.with(edits.get(at) ?? [])),
  )
}

function paired(history: History, note: Note): History {
  const { elements } = history
  const { calls, spare, repeated } = callsIn(elements)
  const byMessage = Map.groupBy(calls, ({ from }) => from)
  const out: Element[] = []
  /** The calls whose results come first in the next turn. */
  let due: readonly Call[] = []
  const answer = (call: Call): string => {
    if (call.result === undefined) {
      const { id } = call
      return written({ type: 'tool_result', tool_use_id: id, content: TEXTS.unknown, is_error: true })
    }
    return elements[call.result.from]?.jsonOf(call.result.span) ?? ''
  }
  const insertDue = (): void => {
    if (due.length > 0) out.push(Element.of(`{"role":"user","content":[${due.map(answer).join(',')}]}`))
    due = []
  }
  for (const [at, message] of elements.entries()) {
    if (!isTurn(message)) {
      out.push(message)
      continue
    }
    if (isAssistant(message)) {
      insertDue()
      out.push(message)
      due = byMessage.get(at) ?? []
      for (const { result } of due) if (result === undefined) note('call_without_result', message)
      continue
    }
    const mine = new Map(due.flatMap(({ result }) => (result?.from === at ? [[result.span, true] as const] : [])))
    const results = resultsOf(message)
    for (const { span } of results) {
      if (spare.has(span)) note('result_without_call', message)
      else if (repeated.has(span)) note('result_duplicate', message)
      else if (!mine.has(span)) note('result_misplaced', message)
    }
    const isInOrder = results.every(({ index }, rank) => index === rank)
    if (mine.size === due.length && results.length === due.length && isInOrder) out.push(message)
    else {
      if (mine.size === results.length && !isInOrder) note('result_misplaced', message)
      out.push(withResults(message, due, answer, mine, spare))
    }
    due = []
  }
  insertDue()
  return withElements(history, out)
}

/** The results of these calls, then what is not a result. */
function withResults(
  message: Element,
  due: readonly Call[],
  answer: (call: Call) => string,
  mine: ReadonlyMap<Span, true>,
  spare: ReadonlySet<Span>,
): Element {
  const content = message.get('content')
  if (content?.kind === 'string') {
    const text = message.jsonOf(content)
    const rest = isBlank(message.text('content')) ? [] : [`{"type":"text","text":${text}}`]
    return message.with([{ ...content, text: `[${[...due.map(answer), ...rest].join(',')}]` }])
  }
  if (!isList(content)) return message
  const results = resultsOf(message)
  const isResult = new Set(results.map(({ index }) => index))
  const kept = results.filter(({ span }) => mine.has(span))
  const parts: Part[] = kept.map(({ index }) => ({ at: index }))
  for (const call of due) if (!mine.has(call.result?.span ?? content)) parts.push({ at: undefined, text: answer(call) })
  for (const at of content.items.keys()) if (!isResult.has(at)) parts.push({ at })
  const wasLeftOut = results.some(({ span }) => spare.has(span))
  if (parts.length === 0) parts.push({ at: undefined, text: textBlock(wasLeftOut ? TEXTS.leftOut : TEXTS.moved) })
  return message.with(arranged(content, inOneRun(message, content, parts)))
}

/** A block that moves to the left of another is copied: `arranged` keeps only what stays in order. */
function inOneRun(message: Element, list: Span, parts: readonly Part[]): readonly Part[] {
  let last = -1
  return parts.map((part) => {
    const item = list.items[part.at ?? -1]
    if (part.at === undefined || item === undefined) return part
    if (part.at < last) return { at: undefined, text: message.jsonOf(item) }
    last = part.at
    return part
  })
}

/** A server's tool has its call earlier in the same message. */
function serverResults(history: History, _: Told, note: Note): History {
  return mapped(history, (message, at) => {
    const content = message.get('content')
    if (!isAssistant(message) || !isList(content)) return message
    const called = new Set<string>()
    const answered = new Set<string>()
    const drops = new Set<number>()
    for (const [index, span] of content.items.entries()) {
      const type = message.string(span, 'type') ?? ''
      if (SERVER_CALLS.has(type)) called.add(message.string(span, 'id') ?? '')
      else if (type.endsWith('_tool_result') && type !== 'tool_result') {
        const id = message.string(span, 'tool_use_id') ?? ''
        if (called.has(id)) answered.add(id)
        else drops.add(index)
      }
    }
    if (drops.size === 0) return message
    note('server_result_without_call', message)
    const isLast = at === history.elements.length - 1
    return shortened(message, content, (span, index) => {
      const isOpenCall =
        SERVER_CALLS.has(message.string(span, 'type') ?? '') && !answered.has(message.string(span, 'id') ?? '')
      return drops.has(index) || (isOpenCall && !isLast)
    })
  })
}
const SERVER_CALLS: ReadonlySet<string> = new Set(['server_tool_use', 'mcp_tool_use'])

// ---- what is blank ----

const isBlankText = (message: Element, block: Span): boolean =>
  message.string(block, 'type') === 'text' && isBlank(message.string(block, 'text'))

/** Only the last message may be empty, if it is the assistant's. */
function withoutBlanks(history: History, note: Note): History {
  const last = history.elements.length - 1
  const next = mapped(history, (message, at) => {
    const content = message.get('content')
    const isEmpty = content?.kind === 'string' ? isBlank(message.text('content')) : isList(content) && content.items.every((block) => isBlankText(message, block)) // prettier-ignore
    if (isEmpty && isTurn(message)) {
      const mayBe = at === last && isAssistant(message) && (content?.kind === 'string' || content?.items.length === 0)
      if (mayBe) return message
      note('content_empty', message)
      return undefined
    }
    if (!isList(content) || !content.items.some((block) => isBlankText(message, block))) return message
    note('content_empty', message)
    return shortened(message, content, (block) => isBlankText(message, block))
  })
  const [first] = next.elements
  if (
    next !== history &&
    (first === undefined || isAssistant(first)) &&
    !isAssistant(history.elements[0] ?? Element.of('{}'))
  )
    note('content_empty', first, false)
  return withoutBlankSystem(next, note)
}

function withoutBlankSystem(history: History, note: Note): History {
  const system = valueOf(history.root, 'system')
  if (!isList(system) || history.outside.length > 0) return history
  const reader = new Element(history.text, system, undefined, false)
  const isDropped = (block: Span): boolean => isBlankText(reader, block)
  if (!system.items.some(isDropped)) return history
  note('content_empty', undefined)
  return { ...history, outside: [...history.outside, ...withoutItems(system, isDropped)] }
}

/** The message without these blocks; undefined if nothing is left of it. */
function shortened(
  message: Element,
  content: Span,
  drops: (block: Span, index: number) => boolean,
): Element | undefined {
  if (content.items.every(drops)) return undefined
  return message.with(withoutItems(content, drops))
}

// ---- marks of the prompt cache ----

const MARKS_MAX = 4

/** The oldest messages lose theirs; tools, system and the last message keep them. */
function withoutSpareMarks(history: History, note: Note): History {
  const { root, elements } = history
  const marked = (span: Span | undefined): number =>
    span?.items.filter((item) => valueOf(item, 'cache_control')).length ?? 0
  const marks = elements.map(marksIn)
  const all = marked(valueOf(root, 'tools')) + marked(valueOf(root, 'system'))
  let spare = marks.reduce((sum, { length }) => sum + length, all) - MARKS_MAX
  if (spare <= 0) return history
  return mapped(history, (message, at) => {
    const drops = at === elements.length - 1 ? [] : (marks[at] ?? []).slice(0, Math.max(0, spare))
    if (drops.length === 0) return message
    spare -= drops.length
    note('cache_marks_too_many', message)
    return message.with(drops.flatMap((block) => withoutKey(block, 'cache_control')))
  })
}

/** Blocks with a mark, also those in results. */
function marksIn(message: Element): readonly Span[] {
  const blocks = message.list('content')
  return [...blocks, ...blocks.flatMap((block) => valueOf(block, 'content')?.items ?? [])].filter((block) => {
    const mark = valueOf(block, 'cache_control')
    return mark !== undefined && mark.kind === 'object'
  })
}

// ---- thoughts ----

const THOUGHTS: ReadonlySet<string> = new Set(['thinking', 'redacted_thinking'])
const isThought = (message: Element, block: Span): boolean => THOUGHTS.has(message.string(block, 'type') ?? '')

/** All of them go. Behind a thought that went, any other would be bound to another conversation. */
function withoutThoughts(cause: 'thinking_altered' | 'thinking_unverifiable' | 'thinking_unbound') {
  return (history: History, _: Told, note: Note): History =>
    mapped(history, (message) => {
      const content = message.get('content')
      if (!isList(content) || !isAssistant(message) || !content.items.some((block) => isThought(message, block)))
        return message
      note(cause, message)
      return shortened(message, content, (block) => isThought(message, block))
    })
}

/** The server itself offers it: one answer without thoughts. */
function withoutThinking(history: History, _: Told, note: Note): History {
  const thinking = valueOf(history.root, 'thinking')
  const message = history.elements.findLast(isAssistant)
  const first = message?.list('content')[0]
  if (thinking === undefined || message === undefined || history.outside.length > 0) return history
  if (first !== undefined && isThought(message, first)) return history
  note('thinking_required', message)
  return { ...history, outside: withoutKey(history.root, 'thinking') }
}

/** The last text of a message that the model is to continue. */
function trimmed(history: History, _: Told, note: Note): History {
  return mapped(history, (message, at) => {
    if (at !== history.elements.length - 1 || !isAssistant(message)) return message
    const content = message.get('content')
    const literal = content?.kind === 'string' ? content : valueOf(content?.items.at(-1), 'text')
    if (literal?.kind !== 'string') return message
    const json = message.jsonOf(literal)
    const text = json.replace(/(?:[ \t\n]|\\[nrtf]|\\u00(?:0[9a-dA-D]|20|[aA]0))+"$/, '"')
    if (text === json || text === '""' || json.at(-1) !== '"') return message
    note('trailing_space', message)
    return message.with([{ ...literal, text }])
  })
}

// ---- images ----

function withoutLargeImages(history: History, told: Told, note: Note): History {
  const sizes = oversizedImages(told.texts)
  if (sizes === undefined) return history
  return mapped(history, (message) => {
    const blocks = message.list('content')
    const edits = [...blocks, ...blocks.flatMap((block) => valueOf(block, 'content')?.items ?? [])].flatMap((block) => {
      if (message.string(block, 'type') !== 'image' || message.string(block, 'source', 'type') !== 'base64') return []
      const instead = sizes.textFor(message.string(block, 'source', 'data') ?? '')
      return instead === undefined ? [] : [{ ...block, text: textBlock(instead) }]
    })
    if (edits.length > 0) note('image_too_large', message)
    return message.with(edits)
  })
}
