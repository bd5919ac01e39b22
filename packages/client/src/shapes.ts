/**
 * Checks what the daemon sent against what callers rely on. Not a full schema: fields that a newer daemon adds pass, and a
 * missing or mistyped one is a fault here instead of a crash far away.
 */
import type {
  CheckpointDiff,
  ConsoleTicket,
  DaemonList,
  EventType,
  McpCalled,
  McpDetail,
  McpList,
  Pruned,
  RunnerList,
  RunnerView,
  Session,
  SessionCheckpoints,
  SessionEvent,
  SessionFilter,
  Turn,
  Undone,
} from '@breakfall/wire'

export type TurnReceipt = { readonly turnId: string; readonly seq: number }
export type DaemonHealth = { readonly status: 'ok'; readonly version: string }
export type DaemonModel = { readonly name: string; readonly baseUrl: string }
export type DaemonReadiness = {
  readonly isReady: boolean
  readonly checks: Readonly<Record<string, string | boolean>>
}
export type SessionPage = {
  readonly sessions: readonly Session[]
  readonly next?: string | undefined
  readonly counts?: Readonly<Partial<Record<SessionFilter, number>>> | undefined
}
export type TurnPage = { readonly turns: readonly Turn[]; readonly next?: string | undefined }

/** From where to where. */
export type DiffQuery = {
  readonly turn?: string | undefined
  readonly checkpoint?: string | undefined
  /** `now`, `next` (up to the following turn), or the id of a checkpoint. Default: `now`. */
  readonly to?: string | undefined
}

export type Guard<T> = (value: unknown) => value is T

export const isSession = shape<Session>({
  id: isText,
  title: orNull(isText),
  state: isText,
  turnId: orNull(isText),
  model: isText,
  createdAt: isText,
  lastSeq: isNumber,
})

export const isTurn = shape<Turn>({
  id: isText,
  sessionId: isText,
  state: isText,
  prompt: isText,
  steps: isNumber,
  attempts: isNumber,
  parked: orNull(fields({ category: isText, since: isText, resumeAt: orNull(isText) })),
  fault: orNull(isReport),
  result: orNull(fields({ text: isText })),
})

export const isReceipt = shape<TurnReceipt>({ turnId: isText, seq: isNumber })
export const isTicket = shape<ConsoleTicket>({ ticket: isText, expiresAt: isText })
export const isPruned = shape<Pruned>({ sessions: isNumber, bytes: isNumber })
export const isReleased = shape<{ readonly released: boolean }>({ released: (value) => typeof value === 'boolean' })
export const isRunnerView = shape<RunnerView>({ runnerId: isText, url: isText, state: isText, lastSeen: isText })
export const isRunnerList = shape<RunnerList>({ runners: Array.isArray })
export const isDaemonList = shape<DaemonList>({ daemons: Array.isArray })
export const isMcpServer = shape<McpList['servers'][number]>({ name: isText, state: isText, tools: isNumber })
export const isMcpList = shape<McpList>({ servers: (value) => Array.isArray(value) && value.every(isMcpServer) })
export const isMcpDetail = shape<McpDetail>({ name: isText, state: isText, offered: Array.isArray, log: Array.isArray })
export const isMcpCalled = shape<McpCalled>({ outcome: isText, text: isText })
export const isCheckpoints = shape<SessionCheckpoints>({
  mode: isText,
  checkpoints: (value) => Array.isArray(value) && value.every(fields({ id: isText, at: isText, files: isNumber })),
  skipped: Array.isArray,
})
export const isDiff = shape<CheckpointDiff>({
  files: (value) => Array.isArray(value) && value.every(fields({ path: isText, change: isText })),
})
export const isUndone = shape<Undone>({
  restored: isNumber,
  removed: isNumber,
  checkpoint: isText,
  files: Array.isArray,
  conflicts: Array.isArray,
  skipped: Array.isArray,
})
export const isHealth = shape<DaemonHealth>({ status: (value) => value === 'ok', version: isText })
export const isModel = shape<DaemonModel>({ name: isText, baseUrl: isText })
export const isReadinessBody = shape<Pick<DaemonReadiness, 'checks'>>({ checks: isRecord })
export const isSessionPage = shape<SessionPage>({
  sessions: (value) => Array.isArray(value) && value.every(isSession),
  next: orUndefined(isText),
})

export const isTurnPage = shape<TurnPage>({
  turns: (value) => Array.isArray(value) && value.every(isTurn),
  next: orUndefined(isText),
})

/** The data of `reset` and `closed` frames. */
export const isClosing = shape<{ readonly reason: string }>({ reason: isText })

/** Any event of the journal, known to this version or not: enough to keep the place in the stream. */
export const isNumbered = shape<{ readonly seq: number; readonly type: string }>({ seq: isNumber, type: isText })

export const isKnownType = (type: string): type is EventType => Object.hasOwn(EVENT_FIELDS, type)

export function isSessionEvent(value: unknown): value is SessionEvent {
  if (!ENVELOPE(value) || !isRecord(value)) return false
  const { type } = value
  return typeof type === 'string' && isKnownType(type) && fields(EVENT_FIELDS[type])(value)
}

// ---- details, in the order they are used above ----

type Check = (value: unknown) => boolean
type Fields = Readonly<Record<string, Check>>

function shape<T>(wanted: Fields): Guard<T> {
  const check = fields(wanted)
  return (value): value is T => check(value)
}

function fields(wanted: Fields): Check {
  return (value) => isRecord(value) && Object.entries(wanted).every(([name, check]) => check(value[name]))
}

function orNull(check: Check): Check {
  return (value) => value === null || check(value)
}

function orUndefined(check: Check): Check {
  return (value) => value === undefined || check(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A newer daemon may use a category that this version does not know, so any name passes. */
function isReport(value: unknown): boolean {
  return isRecord(value) && isText(value['category']) && isText(value['error']) && isText(value['errorRaw'])
}

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
  'tool-call': { step: isNumber, callId: isText, tool: isText, arguments: isRecord },
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
  'approval-requested': { callId: isText, tool: isText, arguments: isRecord, why: isText, expiresAt: orNull(isText) },
  approval: { callId: isText, decision: isText, actor: isText, reason: orNull(isText) },
  'turn-end': { text: isText, steps: isNumber, faultsSurvived: isNumber },
  'turn-error': { category: isText, error: isText, errorRaw: isText },
}
