/**
 * Approvals: how a call asks a person, and what an answer does. Which calls ask is said by the tools.
 *
 * I1  The question and the park are one append: a crash leaves both or neither.
 * I2  A call that waits for a yes has not started, and stays so until an answer is in the journal.
 */
import { decide, Fault, withDecision } from '@breakfall/faults'
import { isObject } from '@breakfall/faults/internal'
import {
  type AnswerValue,
  answerValueSchema,
  type ApprovalDecision,
  type CallQuestion,
  type EventDraft,
  type EventDraftOf,
  isKnownEvent,
  parseEvent,
  type SessionEventOf,
  type Turn,
  type TurnApprove,
} from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import type { Journal } from '../store/store.ts'
import { deadlineAt } from '../turn/next.ts'
import type { Approval, SessionFold, ToolCall } from '../turn/state.ts'
import { SERVER_ASKS } from '../turn/wait.ts'
import { stopTurn } from './end-turn.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { parkTurn, type WaitPort } from './park.ts'
import { notRun } from '../turn/tool-outcome.ts'

export async function askApproval(waits: WaitPort, session: OwnedSession, call: ToolCall, why: string): Promise<void> {
  const { policy } = session
  const fault = new Fault('approval_needed', {
    facts: { name: call.tool, detail: why },
    callId: call.callId,
    errorRaw: `approve is ${policy.approve}`,
  })
  const decision = decisionFor(session, fault)
  if (decision.action !== 'park') return stopTurn(waits.tools, session, [call], withDecision(fault, decision))
  const asked = requested(session, call, { why })
  await parkTurn(waits, session, fault.report, null, { because: decision.because, asked }) // I1
}

/** Parks the turn with a question of the call's server. False: the policy lets it ask no one, or it is too long to show. */
export async function askQuestion(
  waits: WaitPort,
  session: OwnedSession,
  call: ToolCall,
  { id, server, message, schema, continues }: CallQuestion & Pick<Approval, 'continues'>,
): Promise<boolean> {
  if (session.policy.approve === 'never' || JSON.stringify([message, schema, continues]).length > QUESTION_CHARS_MAX)
    return false
  const fault = new Fault('approval_needed', {
    reason: SERVER_ASKS,
    callId: call.callId,
    message: {
      happened: `The MCP server ${server} asks: ${message}`,
      advice: 'Answer it with "breakfall approve", or decline with --deny.',
    },
    errorRaw: `${call.tool} waits for an answer`,
  })
  const decision = decisionFor(session, fault)
  if (decision.action !== 'park') return false
  const question = { id, server, message, schema }
  const asked = requested(session, call, { why: `its server asks: ${message}`, question, continues })
  await parkTurn(waits, session, fault.report, null, { because: decision.because, asked }) // I1
  return true
}

/** The events of an answer, none if it was given before. Throws if the turn does not wait, or not for this call. */
export function approvalDrafts(fold: SessionFold, turnId: string, given: TurnApprove): readonly EventDraft[] {
  const { turn } = fold
  const { callId, decision, reason, question } = given
  const call = turn?.id === turnId ? turn.calls.find((entry) => entry.callId === callId) : undefined
  const waiting = call?.approval
  const isAnswered = waiting?.decision != null && waiting.question?.id === question
  if (isAnswered && isSame({ ...waiting, question }, given)) return [] // a client that sees the question again answers it again
  if (turn?.id !== turnId || turn.parked === null)
    throw new Fault('turn_not_parked', { facts: { detail: 'not waiting for an approval' }, turnId })
  if (waiting == null || waiting.decision !== null || call?.result !== null)
    throw new Fault('not_found', { facts: { name: 'call that waits for an approval under this id' }, turnId })
  const value = waiting.question === undefined ? undefined : answerTo(waiting.question, given)
  if (waiting.question === undefined && (question ?? given.value) !== undefined)
    throw invalidRequest([
      { field: 'question', expected: 'none: this call waits for an approval', got: String(question) },
    ])
  const more = { ...(question === undefined ? {} : { question }), ...(value === undefined ? {} : { value }) }
  const approval = {
    type: 'approval',
    turnId,
    callId,
    decision,
    actor: 'user',
    reason: reason ?? null,
    ...more,
  } as const
  return [approval, { type: 'resumed', turnId, because: 'person' }]
}

/** The answer that the journal has for this question, if it has been given. */
export async function answerBefore(
  journal: Pick<Journal, 'read'>,
  { sessionId, id, firstSeq = 1, lastSeq = 0 }: Turn,
  { callId, question }: TurnApprove,
): Promise<SessionEventOf<'approval'> | undefined> {
  for (let after = firstSeq - 1; after < lastSeq;) {
    const page = await journal.read(sessionId, after, PAGE_EVENTS, PAGE_CHARS_MAX)
    for (const { type, turnId, body } of page) {
      const event = type === 'approval' && turnId === id ? parseEvent(JSON.parse(body)) : undefined
      if (event === undefined || !isKnownEvent(event) || event.type !== 'approval') continue
      if (event.callId === callId && event.question === question) return event
    }
    after = page.at(-1)?.seq ?? lastSeq
  }
  return undefined
}

export const answeredBefore = ({ decision, question, at, turnId }: SessionEventOf<'approval'>): Fault => {
  const how = decision === 'deny' ? 'denied' : question === undefined ? 'approved' : 'answered'
  const error = `This call no longer waits: it was ${how} at ${at.slice(0, 19).replace('T', ' ')} UTC.`
  return new Fault('turn_not_parked', { error, turnId })
}

type Answer = Pick<SessionEventOf<'approval'>, 'question' | 'value'> & { readonly decision: ApprovalDecision | null }

/** Compared with what was written: fields that were left out were filled in. */
export const isSame = (before: Answer, { decision, question, value = {} }: TurnApprove): boolean =>
  before.decision === decision &&
  before.question === question &&
  Object.entries(value).every(([name, field]) => JSON.stringify(before.value?.[name]) === JSON.stringify(field))

/** The model reads that the call was denied, and why. */
export async function denyCall(session: OwnedSession, { callId }: ToolCall, reason: string | null): Promise<void> {
  const { outcome, text } = notRun(
    `the user denied it${reason === null || reason === '' ? '.' : `, saying: ${reason}`}`,
  )
  await session.append({ type: 'tool-result', turnId: session.currentTurn.id, callId, outcome, text })
}

// ---- details ----

const QUESTION_CHARS_MAX = 64 * 1024
const PAGE_EVENTS = 256
const PAGE_CHARS_MAX = 1024 * 1024

const decisionFor = (session: OwnedSession, fault: Fault) =>
  decide(
    fault.report,
    { at: 'limit', because: 'approval_needed', deadlineAt: deadlineAt(session.currentTurn, session.policy) },
    session.policy,
    session.clock.now(),
  )

function requested(
  session: OwnedSession,
  { callId, tool, arguments: given }: ToolCall,
  asked: Pick<Approval, 'why' | 'question' | 'continues'>,
): EventDraftOf<'approval-requested'> {
  const expiresAt = new Date(session.clock.now() + session.policy.approveMsMax).toISOString()
  return {
    type: 'approval-requested',
    turnId: session.currentTurn.id,
    callId,
    tool,
    arguments: given,
    expiresAt,
    ...asked,
  }
}

/** The value of an answer, if it fits the question. Undefined if it is declined. */
function answerTo(
  { id, schema }: CallQuestion,
  { decision, question, value = {} }: TurnApprove,
): AnswerValue | undefined {
  const wrong = (field: string, expected: string, got: unknown): Fault =>
    invalidRequest([{ field, expected, got: String(got).slice(0, 100) }])
  if (question !== id) throw wrong('question', `${id}, because this call waits for an answer to its server`, question)
  if (decision === 'deny') return undefined
  if (decision !== 'allow') throw wrong('decision', 'allow or deny', decision)
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  const required: readonly unknown[] = Array.isArray(schema['required']) ? schema['required'] : []
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(properties, name))
  if (unknown !== undefined)
    throw wrong(`value.${unknown}`, `one of ${Object.keys(properties).join(', ')}`, value[unknown])
  const filled = Object.entries(properties).flatMap(([name, property]) => {
    const field = isObject(property) ? property : {}
    const given = Object.hasOwn(value, name) ? value[name] : fieldOf(field['default'])
    if (given === undefined && required.includes(name)) throw wrong(`value.${name}`, 'a value', 'none')
    if (given !== undefined && !fits(given, field)) throw wrong(`value.${name}`, JSON.stringify(field), given)
    return given === undefined ? [] : [[name, given] as const]
  })
  return Object.fromEntries(filled)
}

const fieldOf = (value: unknown): AnswerValue[string] | undefined => {
  const { success, data } = answerValueSchema.safeParse({ value })
  return success ? data['value'] : undefined
}

function fits(given: AnswerValue[string], field: Readonly<Record<string, unknown>>): boolean {
  const { type, items } = field
  if (Array.isArray(given))
    return type === 'array' && given.every((item) => isOneOf(item, isObject(items) ? items : {}))
  if (type === 'integer') return Number.isInteger(given)
  return typeof given === type && isOneOf(given, field)
}

/** Choices are listed, or each has a title. */
function isOneOf(given: unknown, { enum: names, oneOf, anyOf }: Readonly<Record<string, unknown>>): boolean {
  const titled: unknown = oneOf ?? anyOf
  if (Array.isArray(names)) return names.includes(given)
  return !Array.isArray(titled) || titled.some((choice: unknown) => isObject(choice) && choice['const'] === given)
}
