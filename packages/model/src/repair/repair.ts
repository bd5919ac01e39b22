/**
 * Repairs a conversation that a server refused: the smallest edit for the cause that it named, and for everything else in it that no server
 * of the API takes. Pure.
 *
 * I1  Only what is proven: the refusal names a cause, and the conversation has that defect. A valid one is never touched.
 * I2  The same conversation is always repaired in the same way, and a repaired one is not repaired again: no time, no chance, no counter.
 * I3  A result is never made up. What is not known is said to be unknown.
 * I4  What is not named keeps its bytes.
 */
import type { HistoryCause } from '@breakfall/faults/internal'
import type { RelayApiName } from '../contract/names.ts'
import { chatGrammar } from './chat-grammar.ts'
import { geminiGrammar } from './gemini-grammar.ts'
import type { Grammar, Told } from './grammar.ts'
import { editsOf, type Finding, type History, LIST_OF, type Note } from './history.ts'
import { type Edit, Unreadable } from './json-spans.ts'
import { messagesGrammar } from './messages-grammar.ts'
import { responsesGrammar } from './responses-grammar.ts'

export type Repair = {
  readonly cause: HistoryCause
  /** The first element that was wrong, as the client counts them: `messages.12`. */
  readonly place: string
  readonly history: History
  /** In places of the body that was repaired. Empty if the server may take the same body the next time. */
  readonly edits: readonly Edit[]
}

/** Undefined if the defect is not there, or if no edit that is allowed makes it right. */
export function repairOf(history: History, told: Told): Repair | undefined {
  const { named, mend } = GRAMMARS[history.api] ?? NO_RULES
  const findings: Finding[] = []
  const note: Note = (cause, element, isFixed = true) => {
    if (findings.push({ cause, at: element?.at, isFixed }) > FINDINGS_MAX) throw new Unreadable('too much is wrong')
  }
  const first = named[told.cause]?.(history, told, note) ?? history
  const isTransient = findings.length > 0 && first === history
  const next = isTransient ? history : mend(first, note)
  const [proof] = findings.filter(({ cause }) => familyOf(cause) === familyOf(told.cause)) // I1
  if (proof === undefined || findings.some(({ isFixed }) => !isFixed)) return undefined
  if (next.elements.length === 0 || (!isTransient && !isValid(next))) return undefined
  const list = LIST_OF[history.api] ?? ''
  const place = proof.at === undefined ? list : `${list}.${proof.at}`
  return { cause: told.cause, place, history: next, edits: isTransient ? [] : editsOf(next) }
}

/** Nothing is wrong that every server of the API would refuse. */
export function isValid(history: History): boolean {
  let isSound = true
  const { mend } = GRAMMARS[history.api] ?? NO_RULES
  mend(history, () => {
    isSound = false
  })
  return isSound
}

// ---- details ----

const FINDINGS_MAX = 5_000 // each costs a tenth of a millisecond; a strip of thoughts finds one per step

const GRAMMARS: Readonly<Partial<Record<RelayApiName, Grammar>>> = {
  'anthropic-messages': messagesGrammar,
  'openai-chat': chatGrammar,
  'openai-responses': responsesGrammar,
  gemini: geminiGrammar,
  'bedrock-messages': messagesGrammar,
}

const NO_RULES: Grammar = { mend: (history) => history, named: {} }

/** A server that finds calls and results that do not fit names either half. */
const FAMILIES: Readonly<Partial<Record<HistoryCause, string>>> = {
  call_without_result: 'pairs',
  result_without_call: 'pairs',
  result_misplaced: 'pairs',
  result_duplicate: 'pairs',
  call_duplicate: 'pairs',
  call_misplaced: 'pairs',
  content_empty: 'blank',
  cache_mark_on_empty: 'blank',
}
const familyOf = (cause: HistoryCause): string => FAMILIES[cause] ?? cause
