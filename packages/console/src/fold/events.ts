/** Checks an event before it is folded: a wrong one becomes one line of the page, and never a broken page. */
import type { SessionEvent } from '@breakfall/wire'
import { hasFields, isJson, isNumber, isText, type Json } from './shapes.ts'

type Check = (value: unknown) => boolean

/** Any event of the journal, whatever its type. */
export type Numbered = Json & {
  readonly seq: number
  readonly type: string
  readonly turnId: string
  readonly at: string
}

export const isNumbered = (value: unknown): value is Numbered =>
  hasFields(value, { seq: isNumber, type: isText, turnId: isText, at: isTime })

export const isEvent = (event: Numbered): event is Numbered & SessionEvent => {
  const wanted = FIELDS[event.type]
  return wanted !== undefined && Object.entries(wanted).every(([name, check]) => check(event[name]))
}

// ---- details ----

function isTime(value: unknown): value is string {
  return isText(value) && Number.isFinite(Date.parse(value))
}

const isFault: Check = (value) =>
  hasFields(value, { category: isText, class: isText, error: isText, errorRaw: isText }) &&
  (!('diagnostics' in value) || Array.isArray(value.diagnostics))

const isUsage: Check = (value) => isJson(value) && isJson(value['inputTokens']) && isJson(value['outputTokens'])
const isUsageIfAny: Check = (value) => value === undefined || isUsage(value)
const isTextIfAny: Check = (value) => value === null || isText(value)
const PART = { step: isNumber, attempt: isNumber, part: isText }

const FIELDS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  'turn-queued': { prompt: isText },
  'turn-start': { prompt: isText },
  'step-start': { step: isNumber },
  'text-delta': { ...PART, text: isText },
  'reasoning-delta': { ...PART, text: isText },
  'part-discarded': { ...PART, because: isFault },
  'tool-draft': { ...PART, tool: isText },
  'tool-call': { step: isNumber, callId: isText, tool: isText, arguments: isJson, usage: isUsageIfAny },
  'tool-output': { callId: isText, text: isText },
  'tool-result': { callId: isText, outcome: isText, text: isText },
  retry: {
    step: isNumber,
    attempt: isNumber,
    fault: isFault,
    action: isText,
    delayMs: isNumber,
    nextAt: isTime,
    max: isNumber,
    usage: isUsageIfAny,
  },
  compacted: { step: isNumber, requestBytesBefore: isNumber, requestBytesAfter: isNumber },
  parked: { fault: isFault },
  resumed: { because: isText },
  'taken-over': { epoch: isNumber },
  'box-moved': { from: isText, to: isText, because: isText },
  'model-server': { state: isText, since: isText },
  'approval-requested': { callId: isText, why: isText, expiresAt: isTextIfAny },
  approval: { callId: isText, decision: isText, reason: isTextIfAny },
  'turn-end': { text: isText, usage: isUsage, steps: isNumber, faultsSurvived: isNumber },
  'turn-error': { category: isText, class: isText, error: isText, errorRaw: isText },
}
