/** The same for events. */
import { isObject } from '@breakfall/faults/internal'
import type { EventType, SessionEvent } from '@breakfall/wire'
import { type Fields, fields, isNumber, isReport, isText, orNull, shape } from './check.ts'

/** The data of `reset` and `closed` frames. */
export const isClosing = shape<{ readonly reason: string }>({ reason: isText })

/** Any event of the journal, known to this version or not: enough to keep the place in the stream. */
export const isNumbered = shape<{ readonly seq: number; readonly type: string }>({ seq: isNumber, type: isText })

export const isKnownType = (type: string): type is EventType => Object.hasOwn(EVENT_FIELDS, type)

export function isSessionEvent(value: unknown): value is SessionEvent {
  if (!ENVELOPE(value) || !isObject(value)) return false
  const { type } = value
  return typeof type === 'string' && isKnownType(type) && fields(EVENT_FIELDS[type])(value)
}

// ---- details, in the order they are used above ----

const ENVELOPE = fields({ seq: isNumber, type: isText, sessionId: isText, turnId: isText, at: isText })

const PART: Fields = { step: isNumber, attempt: isNumber, part: isText }

/** Total over the event types: a new one does not compile until its fields are listed. */
const EVENT_FIELDS: Readonly<Record<EventType, Fields>> = {
  'turn-queued': { prompt: isText },
  'turn-start': { prompt: isText },
  'step-start': { step: isNumber },
  'text-delta': { ...PART, text: isText },
  'reasoning-delta': { ...PART, text: isText },
  'part-discarded': { ...PART },
  'tool-draft': { ...PART, tool: isText },
  'tool-call': { step: isNumber, callId: isText, tool: isText, arguments: isObject },
  'tool-output': { callId: isText, stream: isText, text: isText },
  'tool-result': { callId: isText, outcome: isText, text: isText },
  retry: { step: isNumber, attempt: isNumber, fault: isReport, action: isText, delayMs: isNumber, max: isNumber },
  compacted: {
    step: isNumber,
    fromStep: isNumber,
    toStep: isNumber,
    droppedResults: isNumber,
    summaryBytes: isNumber,
    requestBytesBefore: isNumber,
    requestBytesAfter: isNumber,
  },
  parked: { fault: isReport, resumeAt: orNull(isText) },
  resumed: { because: isText },
  'taken-over': { epoch: isNumber },
  'box-moved': { from: isText, to: isText, filesKept: (value) => typeof value === 'boolean', because: isText },
  'model-server': { state: isText, since: isText },
  'approval-requested': { callId: isText, tool: isText, arguments: isObject, why: isText, expiresAt: orNull(isText) },
  approval: { callId: isText, decision: isText, actor: isText, reason: orNull(isText) },
  'turn-end': { text: isText, steps: isNumber, faultsSurvived: isNumber },
  'turn-error': { category: isText, error: isText, errorRaw: isText },
}
