/** OpenAI's chat completions: after an assistant message with `tool_calls` come its `tool` messages, and nothing between them. */
import { createHash } from 'node:crypto'
import type { Grammar, Told } from './grammar.ts'
import { Element, type History, isBlank, mapped, type Note, TEXTS, withElements } from './history.ts'
import { type Edit, isList, type Span, Unreadable, valueOf, withKey, written } from './json-spans.ts'

export const chatGrammar: Grammar = {
  mend: paired,
  named: {
    arguments_unparsable: withReadableArguments,
    call_id_malformed: withShortIds,
    content_empty: withoutEmptyMessages,
    roles_misordered: inTurns,
    thinking_missing: withThoughtFields,
  },
}

/** The arguments of a call that do not parse, as an object that does. The model sees what was there. */
export function readableArguments(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch {
    return JSON.stringify(isBlank(text) ? {} : { _unparsed: text })
  }
}

// ---- calls and results ----

const isAssistant = (message: Element): boolean => message.text('role') === 'assistant'
const isTool = (message: Element): boolean => message.text('role') === 'tool'

type Call = { readonly id: string; readonly from: number; result: number | undefined }

const callSpans = (message: Element): readonly Span[] => (isAssistant(message) ? message.list('tool_calls') : [])

function idOf(id: string | undefined): string {
  if (id === undefined || id === '') throw new Unreadable('a call or a result without an id')
  return id
}

/**
 * A result right behind its call belongs to it. Any other one only if the id is there once: some servers number the calls of each step, and
 * the result of another step would be a made-up one.
 */
function callsIn(elements: readonly Element[]): readonly Call[] {
  const calls = elements.flatMap((message, from): Call[] =>
    callSpans(message).map((span) => ({ id: idOf(message.string(span, 'id')), from, result: undefined })),
  )
  const keyOf = (from: number, id: string): string => `${from} ${id}`
  const byPlace = new Map(calls.map((call) => [keyOf(call.from, call.id), call]))
  const resultsOf = new Map<string, number[]>()
  let caller = -1
  for (const [at, message] of elements.entries()) {
    if (!isTool(message)) {
      caller = at
      continue
    }
    const id = idOf(message.text('tool_call_id'))
    const results = resultsOf.get(id)
    if (results === undefined) resultsOf.set(id, [at])
    else results.push(at)
    const own = byPlace.get(keyOf(caller, id))
    if (own !== undefined) own.result ??= at
  }
  for (const [id, [call, another]] of Map.groupBy(calls, (one) => one.id)) {
    const results = resultsOf.get(id) ?? []
    const isOne = another === undefined && new Set(results.map((at) => elements[at]?.json)).size === 1
    if (isOne && call !== undefined) call.result ??= results[0]
  }
  return calls
}

function paired(history: History, note: Note): History {
  const { elements } = history
  const calls = callsIn(elements)
  const known = new Set(calls.map(({ id }) => id))
  const byMessage = Map.groupBy(calls, ({ from }) => from)
  const owned = new Map(calls.flatMap(({ result, from }) => (result === undefined ? [] : [[result, from] as const])))
  const out: Element[] = []
  const placed = new Set<Element>()
  /** The message whose results come now. */
  let open = -1
  const inPlace = (at: number): boolean => open !== -1 && owned.get(at) === open
  const end = (): void => {
    for (const { id, result } of byMessage.get(open) ?? []) {
      const there = result === undefined ? undefined : elements[result]
      if (there === undefined) out.push(Element.of(written({ role: 'tool', tool_call_id: id, content: TEXTS.unknown })))
      else if (!placed.has(there)) out.push(there.moved())
    }
    open = -1
  }
  for (const [at, message] of elements.entries()) {
    if (isTool(message)) {
      if (inPlace(at)) {
        out.push(message)
        placed.add(message)
      } else if (owned.has(at)) note('result_misplaced', message)
      else note(known.has(message.text('tool_call_id') ?? '') ? 'result_duplicate' : 'result_without_call', message)
      continue
    }
    end()
    out.push(message)
    const asked = byMessage.get(at) ?? []
    if (asked.length > 0) open = at
    if (new Set(asked.map(({ id }) => id)).size < asked.length) note('call_duplicate', message, false)
    for (const { result } of asked) if (result === undefined) note('call_without_result', message)
  }
  end()
  return withElements(history, out)
}

// ---- what only some servers refuse ----

function withReadableArguments(history: History, _: Told, note: Note): History {
  return mapped(history, (message) => {
    const edits = callSpans(message).flatMap((span): Edit[] => {
      const literal = valueOf(span, 'function', 'arguments')
      const text = message.string(literal)
      const instead = text === undefined ? undefined : readableArguments(text)
      return literal === undefined || instead === undefined ? [] : [{ ...literal, text: written(instead) }]
    })
    if (edits.length > 0) note('arguments_unparsable', message)
    return message.with(edits)
  })
}

/** Mistral's: nine letters or digits. */
function withShortIds(history: History, _: Told, note: Note): History {
  const edit = (message: Element, literal: Span | undefined): Edit[] => {
    const id = message.string(literal)
    if (literal === undefined || id === undefined || /^[a-zA-Z0-9]{9}$/.test(id)) return []
    return [{ ...literal, text: written(createHash('sha256').update(id).digest('hex').slice(0, 9)) }]
  }
  return mapped(history, (message) => {
    const calls = callSpans(message).flatMap((span) => edit(message, valueOf(span, 'id')))
    const edits = isTool(message) ? edit(message, message.get('tool_call_id')) : calls
    if (edits.length > 0) note('call_id_malformed', message)
    return message.with(edits)
  })
}

/** An assistant message that says nothing at all. */
function withoutEmptyMessages(history: History, _: Told, note: Note): History {
  return mapped(history, (message) => {
    const says = ['tool_calls', 'function_call', 'refusal', 'audio', 'reasoning_content'].some((name) => {
      const value = message.get(name)
      return value !== undefined && message.jsonOf(value) !== 'null' && !(isList(value) && value.items.length === 0)
    })
    if (!isAssistant(message) || says || !isEmpty(message, message.get('content'))) return message
    note('content_empty', message)
    return undefined
  })
}

function isEmpty(message: Element, content: Span | undefined): boolean {
  if (content === undefined || message.jsonOf(content) === 'null') return true
  if (content.kind === 'string') return isBlank(message.string(content))
  return isList(content) && content.items.every((part) => isBlank(message.string(part, 'text')))
}

/** As templates want it: no user right after a tool, no two equal roles in a row. */
function inTurns(history: History, { texts }: Told, note: Note): History {
  const isAboutTool = texts.some((text) => /after role/i.test(text))
  const out: Element[] = []
  for (const message of history.elements) {
    const before = out.at(-1)
    const role = message.text('role')
    if (isAboutTool && before !== undefined && isTool(before) && role === 'user') {
      note('roles_misordered', message)
      out.push(Element.of(written({ role: 'assistant', content: TEXTS.step })), message)
      continue
    }
    const joins = !isAboutTool && before?.text('role') === role && (role === 'user' || role === 'assistant')
    const one = joins && before !== undefined ? joined(before, message) : undefined
    if (one === undefined) out.push(message)
    else {
      note('roles_misordered', message)
      out.splice(-1, 1, one)
    }
  }
  return withElements(history, out)
}

/** One message that says what both say. Undefined if they say more than text. */
function joined(first: Element, second: Element): Element | undefined {
  const [one, other] = [first.get('content'), second.get('content')]
  const isPlain = (message: Element): boolean =>
    message.whole.entries.every(({ name }) => name === 'role' || name === 'content')
  if (!isPlain(first) || !isPlain(second) || one?.kind !== 'string' || other?.kind !== 'string') return undefined
  const text = `${first.jsonOf(one).slice(0, -1)}\\n\\n${second.jsonOf(other).slice(1)}`
  return first.with([{ ...one, text }])
}

/** DeepSeek takes an empty text, another host wants more than that. */
function withThoughtFields(history: History, { times }: Told, note: Note): History {
  const text = times === 0 ? '' : ' '
  return mapped(history, (message) => {
    const known = message.text('reasoning_content')
    if (!isAssistant(message) || (known !== undefined && (times === 0 || known !== ''))) return message
    note('thinking_missing', message)
    return message.with([withKey(message.whole, 'reasoning_content', written(text))])
  })
}
