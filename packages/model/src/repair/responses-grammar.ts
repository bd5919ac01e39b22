/** OpenAI's Responses: each call that the client runs has one output, and nothing depends on what the provider has not stored. */
import { createHash } from 'node:crypto'
import { readableArguments } from './chat-grammar.ts'
import { type Grammar, mentions, type Told } from './grammar.ts'
import { Element, type History, mapped, type Note, TEXTS, withElements } from './history.ts'
import { valueOf, withKey, withoutKey, written } from './json-spans.ts'

export const responsesGrammar: Grammar = {
  mend: paired,
  named: {
    call_without_result: withStoredCall,
    result_without_call: withoutNamedOutput,
    arguments_unparsable: withReadableArguments,
    reasoning_undecryptable: withoutReasoning,
    reasoning_alone: withoutNamedReasoning,
    reasoning_detached: withoutNamedId('reasoning_detached'),
    item_unknown: withoutNamedId('item_unknown'),
    item_id_duplicate: withoutSecondId,
    item_id_malformed: withoutWrongIds,
  },
}

// ---- calls and outputs ----

/** What the client runs, with the type of its output. Only the first two are text that can say that it is unknown. */
const OUTPUT_OF: Readonly<Record<string, string>> = {
  function_call: 'function_call_output',
  custom_tool_call: 'custom_tool_call_output',
  local_shell_call: 'local_shell_call_output',
  shell_call: 'shell_call_output',
  apply_patch_call: 'apply_patch_call_output',
  computer_call: 'computer_call_output',
  tool_search_call: 'tool_search_output',
}
const OUTPUTS: ReadonlySet<string> = new Set(Object.values(OUTPUT_OF))
const HAS_TEXT: ReadonlySet<string> = new Set(['function_call', 'custom_tool_call'])

const typeOf = (item: Element): string => item.text('type') ?? 'message'
/** A provider that ran the call itself gives no id. */
const isCall = (item: Element): boolean => Object.hasOwn(OUTPUT_OF, typeOf(item)) && item.text('call_id') !== undefined
const isOutput = (item: Element): boolean => OUTPUTS.has(typeOf(item)) && item.text('call_id') !== undefined
const keyOf = (item: Element): string =>
  `${isCall(item) ? OUTPUT_OF[typeOf(item)] : typeOf(item)} ${item.text('call_id')}`

/** What is not in the request may be stored at the provider. */
function hasStored({ root, text }: History): boolean {
  return ['previous_response_id', 'conversation'].some((name) => {
    const value = valueOf(root, name)
    return value !== undefined && text.slice(value.from, value.to) !== 'null'
  })
}

function paired(history: History, note: Note): History {
  const { elements } = history
  const outputOf = new Map<Element, Element>()
  const open = new Map<string, Element>()
  const known = new Set<string>()
  const dropped = new Set<Element>()
  const early: Element[] = []
  for (const item of elements) {
    const key = keyOf(item)
    if (isCall(item)) {
      if (open.has(key)) note('call_duplicate', item, false)
      open.set(key, item)
      known.add(key)
    } else if (isOutput(item)) {
      const call = open.get(key)
      if (call === undefined) early.push(item)
      else outputOf.set(call, item)
      open.delete(key)
    }
  }
  const moved = new Set<Element>()
  const ids = new Set([...open.values()].map((call) => call.text('call_id')))
  for (const item of early) {
    const call = open.get(keyOf(item))
    if (call !== undefined) {
      note('result_misplaced', item)
      outputOf.set(call, item)
      open.delete(keyOf(item))
      moved.add(item)
    } else if (known.has(keyOf(item))) {
      note('result_duplicate', item)
      dropped.add(item)
    } else if (ids.has(item.text('call_id'))) note('result_without_call', item, false) // of another type: which of both is wrong?
    else if (!hasStored(history)) {
      note('result_without_call', item)
      dropped.add(item)
    }
  }
  for (const call of open.values()) note('call_without_result', call, HAS_TEXT.has(typeOf(call)))
  const out: Element[] = []
  const due: Element[] = []
  const insertDue = (): void => {
    for (const call of due.splice(0)) out.push(outputOf.get(call)?.moved() ?? unknownOutput(call))
  }
  for (const item of elements) {
    if (dropped.has(item) || moved.has(item)) continue
    if (!isCall(item) && !isOutput(item)) insertDue() // behind the calls of a group
    out.push(item)
    const output = outputOf.get(item)
    if (isCall(item) && (output === undefined ? HAS_TEXT.has(typeOf(item)) : moved.has(output))) due.push(item)
  }
  insertDue()
  return withElements(history, out)
}

const unknownOutput = (call: Element): Element =>
  Element.of(written({ type: OUTPUT_OF[typeOf(call)], call_id: call.text('call_id'), output: TEXTS.unknown }))

/** The call is stored at the provider: only its refusal knows it. */
function withStoredCall(history: History, { texts }: Told, note: Note): History {
  const [, kind, id] = texts.flatMap((text) => /No tool output found for (function|custom tool) call ([\w-]{1,200})/i.exec(text) ?? []) // prettier-ignore
  if (id === undefined || !hasStored(history) || history.elements.some((item) => item.text('call_id') === id))
    return history
  note('call_without_result')
  const type = kind?.toLowerCase() === 'function' ? 'function_call_output' : 'custom_tool_call_output'
  return withElements(history, [Element.of(written({ type, call_id: id, output: TEXTS.unknown })), ...history.elements])
}

/** Its call is not stored either. */
function withoutNamedOutput(history: History, told: Told, note: Note): History {
  if (!hasStored(history)) return history
  const called = new Set(history.elements.flatMap((item) => (isCall(item) ? [item.text('call_id')] : [])))
  return mapped(history, (item) => {
    if (!isOutput(item) || called.has(item.text('call_id')) || !mentions(told, item.text('call_id'))) return item
    note('result_without_call', item)
    return undefined
  })
}

function withReadableArguments(history: History, _: Told, note: Note): History {
  return mapped(history, (item) => {
    const text = typeOf(item) === 'function_call' ? item.text('arguments') : undefined
    const instead = text === undefined ? undefined : readableArguments(text)
    if (instead === undefined) return item
    note('arguments_unparsable', item)
    return item.with([withKey(item.whole, 'arguments', written(instead))])
  })
}

// ---- reasoning and ids ----

/** A compaction is the history itself, and encrypted as well: without it nothing is left. */
function withoutReasoning(history: History, _: Told, note: Note): History {
  if (history.elements.some((item) => /compaction|context_summary/.test(typeOf(item)))) return history
  return mapped(history, (item) => {
    if (typeOf(item) !== 'reasoning') return item
    note('reasoning_undecryptable', item)
    return undefined
  })
}

function withoutNamedReasoning(history: History, told: Told, note: Note): History {
  return mapped(history, (item) => {
    if (typeOf(item) !== 'reasoning' || !mentions(told, item.text('id'))) return item
    note('reasoning_alone', item)
    return undefined
  })
}

/** An item without an id is taken from the request and not looked up. Reasoning that is only stored is lost, and then all of it is. */
function withoutNamedId(cause: 'reasoning_detached' | 'item_unknown') {
  return (history: History, told: Told, note: Note): History => {
    const isLost = (item: Element): boolean =>
      typeOf(item) === 'reasoning' && item.text('encrypted_content') === undefined
    const isNamed = (item: Element): boolean => mentions(told, item.text('id')) && typeOf(item) !== 'item_reference'
    const areLost = cause === 'item_unknown' && history.elements.some((item) => isNamed(item) && isLost(item))
    return mapped(history, (item) => {
      // A detached item is named together with the reasoning that it lacks.
      const isMeant = isNamed(item) && (cause === 'item_unknown' || typeOf(item) !== 'reasoning')
      if (!isMeant && !(areLost && isLost(item))) return item
      note(cause, item)
      return isLost(item) ? undefined : item.with(withoutKey(item.whole, 'id'))
    })
  }
}

function withoutSecondId(history: History, told: Told, note: Note): History {
  const known = new Set<string>()
  return mapped(history, (item) => {
    const id = item.text('id')
    if (id === undefined || !mentions(told, id) || typeOf(item) === 'item_reference') return item
    if (!known.has(id)) {
      known.add(id)
      return item
    }
    note('item_id_duplicate', item)
    return item.with(withoutKey(item.whole, 'id'))
  })
}

/** Those of the named item's type. An image that has none gets one, because the API wants it. */
function withoutWrongIds(history: History, told: Told, note: Note): History {
  const prefix = told.texts.flatMap((text) => /begins with '?([a-z]{1,12})/i.exec(text)?.[1] ?? [])[0]
  if (prefix === undefined)
    return mapped(history, (item) => {
      if (typeOf(item) !== 'image_generation_call' || item.text('id') !== undefined) return item
      note('item_id_malformed', item)
      const id = `ig_${createHash('sha256').update(item.json).digest('hex').slice(0, 32)}`
      return item.with([withKey(item.whole, 'id', written(id))])
    })
  const named = history.elements.find((item) => mentions(told, item.text('id')))
  if (named === undefined) return history
  return mapped(history, (item) => {
    const id = item.text('id')
    if (id === undefined || typeOf(item) !== typeOf(named) || id.startsWith(prefix)) return item
    note('item_id_malformed', item)
    return item.with(withoutKey(item.whole, 'id'))
  })
}
