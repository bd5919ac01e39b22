/**
 * Gemini's contents: a model's content with `functionCall` parts follows the user or a `functionResponse`, and the content behind it has as
 * many `functionResponse` parts as there were calls. Fields come in camel case or, as in Google's own Python, in snake case.
 */
import type { Grammar, Told } from './grammar.ts'
import { Element, type History, mapped, type Note, TEXTS, withElements } from './history.ts'
import { arranged, type Edit, type Part, type Span, valueOf, withKey, withoutKey, written } from './json-spans.ts'

export const geminiGrammar: Grammar = {
  mend: (history, note) => paired(inTurns(withoutEmpty(history, note), note), note),
  named: {
    thought_signature_missing: withSignatures,
    thought_signature_invalid: withNewSignatures,
  },
}

// ---- parts ----

const isModel = (content: Element): boolean => content.text('role') === 'model'
const callIn = (part: Span): Span | undefined => valueOf(part, 'functionCall') ?? valueOf(part, 'function_call')
const responseIn = (part: Span): Span | undefined =>
  valueOf(part, 'functionResponse') ?? valueOf(part, 'function_response')

type FunctionPart = {
  readonly index: number
  readonly id: string | undefined
  readonly name: string | undefined
  readonly part: Span
}

function functionsIn(content: Element, inPart: (part: Span) => Span | undefined): readonly FunctionPart[] {
  return content.list('parts').flatMap((part, index) => {
    const value = inPart(part)
    if (value === undefined) return []
    return { index, id: content.string(value, 'id'), name: content.string(value, 'name'), part }
  })
}
const callsOf = (content: Element): readonly FunctionPart[] => (isModel(content) ? functionsIn(content, callIn) : [])
const responsesOf = (content: Element): readonly FunctionPart[] =>
  isModel(content) ? [] : functionsIn(content, responseIn)

// ---- what no server takes ----

function withoutEmpty(history: History, note: Note): History {
  return mapped(history, (content) => {
    const parts = content.get('parts')
    if (parts?.kind !== 'list' || parts.items.length > 0) return content
    note('content_empty', content)
    return undefined
  })
}

/** Two contents of the model in a row become one. A call at the beginning goes, with its response. */
function inTurns(history: History, note: Note): History {
  const out: Element[] = []
  let isCut = false
  for (const content of history.elements) {
    const before = out.at(-1)
    const hasCall = callsOf(content).length > 0
    if (before === undefined && (hasCall || (isCut && isOnlyResponses(content)))) {
      note('call_misplaced', content)
      isCut = true
      continue
    }
    if (!hasCall || before === undefined || !isModel(before)) {
      out.push(content)
      continue
    }
    note('call_misplaced', content)
    const parts = before.get('parts')
    const added = content.list('parts').map((part) => content.jsonOf(part))
    if (parts === undefined) out.push(content)
    else out.splice(-1, 1, before.with([{ from: parts.to - 1, to: parts.to - 1, text: `,${added.join(',')}` }]))
  }
  return withElements(history, out)
}

const isOnlyResponses = (content: Element): boolean =>
  responsesOf(content).length > 0 && responsesOf(content).length === content.list('parts').length

/** Responses belong to calls by id, else by name in order. */
function matched(
  calls: readonly FunctionPart[],
  responses: readonly FunctionPart[],
): readonly (FunctionPart | undefined)[] {
  const left = [...responses]
  const take = (isIt: (response: FunctionPart) => boolean): FunctionPart | undefined => {
    const at = left.findIndex(isIt)
    return at === -1 ? undefined : left.splice(at, 1)[0]
  }
  const byId = calls.map(({ id }) => (id === undefined ? undefined : take((response) => response.id === id)))
  return calls.map((call, at) => byId[at] ?? take((response) => isOf(response, call)))
}

type Named = Pick<FunctionPart, 'id' | 'name'>
const isOf = (response: Named, call: Named): boolean =>
  response.id === undefined || call.id === undefined ? response.name === call.name : response.id === call.id

function paired(history: History, note: Note): History {
  const { elements } = history
  const out: Element[] = []
  /** Responses that were taken for a call before them. */
  const taken = new Set<Span>()
  let caller: Element | undefined
  const spare = new Map<string | undefined, Named[]>()
  const loose = looseIn(elements)
  const answers = (from: number): readonly { json: string; index: number | undefined }[] => {
    if (caller === undefined) return []
    const content = elements[from]
    const calls = callsOf(caller)
    const here = matched(calls, content === undefined ? [] : responsesOf(content))
    return calls.map((call, at) => {
      const own = here[at]
      if (own !== undefined && content !== undefined) return { json: content.jsonOf(own.part), index: own.index }
      const found = loose.get(call.name)?.find((one) => one.at > from && !taken.has(one.part) && isOf(one, call))
      if (found !== undefined) {
        taken.add(found.part)
        return { json: elements[found.at]?.jsonOf(found.part) ?? '', index: undefined }
      }
      // A response before its call: nothing is known of how servers read that.
      const isEarly = spare.get(call.name)?.some((one) => isOf(one, call)) === true
      note('call_without_result', caller, !isEarly)
      return { json: unknownResponse(call), index: undefined }
    })
  }
  const insertDue = (from: number): void => {
    const due = answers(from)
    if (due.length > 0) out.push(Element.of(`{"role":"user","parts":[${due.map(({ json }) => json).join(',')}]}`))
    caller = undefined
  }
  for (const [at, content] of elements.entries()) {
    const responses = responsesOf(content)
    if (caller !== undefined && responses.length === 0) insertDue(at - 1)
    const due = answers(at)
    caller = undefined
    const kept = due.flatMap(({ index }) => index ?? [])
    for (const { id, name, index, part } of responses)
      if (!kept.includes(index)) {
        const isTaken = taken.has(part)
        note(isTaken ? 'result_misplaced' : 'result_without_call', content)
        if (!isTaken && (spare.get(name)?.push({ id, name }) ?? 0) === 0) spare.set(name, [{ id, name }])
      }
    const next =
      kept.length === due.length && kept.length === responses.length ? content : withResponses(content, due, taken)
    if (next !== undefined) out.push(next)
    if (callsOf(content).length > 0) caller = content
  }
  insertDue(elements.length)
  return withElements(history, out)
}

/** Responses that are not right behind calls, by name. */
function looseIn(
  elements: readonly Element[],
): ReadonlyMap<string | undefined, readonly (FunctionPart & { readonly at: number })[]> {
  const loose = elements.flatMap((content, at) => {
    const before = elements[at - 1]
    if (before !== undefined && callsOf(before).length > 0) return []
    return responsesOf(content).slice(0, LOOSE_MAX).map((response) => ({ ...response, at })) // prettier-ignore
  })
  return Map.groupBy(loose.slice(0, LOOSE_MAX), ({ name }) => name)
}
const LOOSE_MAX = 1_000 // each is compared with each call that has no response

/** These responses, and everything else that the content has. */
function withResponses(
  content: Element,
  due: readonly { json: string; index: number | undefined }[],
  taken: ReadonlySet<Span>,
): Element {
  const responses = responsesOf(content)
  const isResponse = new Set(responses.map(({ index }) => index))
  const kept = new Set(due.map(({ index }) => index))
  const list = content.get('parts')
  if (list === undefined) return content
  const parts: Part[] = [...list.items.keys()].flatMap((at) => (isResponse.has(at) && !kept.has(at) ? [] : [{ at }]))
  const behind = parts.findLastIndex(({ at = -1 }) => isResponse.has(at)) + 1
  parts.splice(
    behind,
    0,
    ...due.flatMap(({ json, index }) => (index === undefined ? [{ at: undefined, text: json }] : [])),
  )
  const wasMoved = responses.every(({ part }) => taken.has(part))
  if (parts.length === 0) parts.push({ at: undefined, text: written({ text: wasMoved ? TEXTS.moved : TEXTS.leftOut }) })
  return content.with(arranged(list, parts))
}

function unknownResponse({ id, name, part }: FunctionPart): string {
  const key = valueOf(part, 'functionCall') === undefined ? 'function_response' : 'functionResponse'
  return written({ [key]: { ...(id === undefined ? {} : { id }), name, response: { error: TEXTS.unknown } } })
}

// ---- signatures ----

/** Google's own, for calls that its model did not make. */
const PLACEHOLDER = 'skip_thought_signature_validator'
const SIGNATURES = ['thoughtSignature', 'thought_signature']

const hasSignature = (content: Element, part: Span): boolean =>
  SIGNATURES.some((name) => (content.string(part, name) ?? '') !== '')

/** Since the user's last text, the first call of each content needs one. */
function withSignatures(history: History, _: Told, note: Note): History {
  const from = history.elements.findLastIndex(
    (content) => !isModel(content) && content.list('parts').some((part) => content.string(part, 'text') !== undefined),
  )
  return mapped(history, (content, at) => {
    const [first] = callsOf(content)
    if (at < from || first === undefined || hasSignature(content, first.part)) return content
    note('thought_signature_missing', content)
    return content.with([withKey(first.part, SIGNATURES[0] ?? '', written(PLACEHOLDER))])
  })
}

/** Some servers take them the next time. If not, calls get another one, and texts none. */
function withNewSignatures(history: History, { times }: Told, note: Note): History {
  return mapped(history, (content) => {
    if (!isModel(content)) return content
    const edits = content.list('parts').flatMap((part): readonly Edit[] => {
      const name = SIGNATURES.find((known) => (content.string(part, known) ?? '') !== '')
      if (name === undefined || content.string(part, name) === PLACEHOLDER) return []
      return callIn(part) === undefined ? withoutKey(part, name) : [withKey(part, name, written(PLACEHOLDER))]
    })
    if (edits.length > 0) note('thought_signature_invalid', content)
    return times === 0 ? content : content.with(edits)
  })
}
