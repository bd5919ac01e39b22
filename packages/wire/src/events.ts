/**
 * The events of a session, in the journal, on SSE and on the WebSocket.
 *
 * Code works with the declared fields only: `SessionEvent` to read, `EventDraft` to write. Parsing keeps fields and event
 * types that a newer version added, for older readers to pass on.
 */
import { Fault } from '@breakfall/faults'
import { SERVE_STATES } from '@breakfall/faults/internal'
import { z } from 'zod'
import {
  answerValueSchema,
  callQuestionSchema,
  changedFields,
  costSchema,
  finishFields,
  instructionsFileSchema,
  providerViewSchema,
  usageSchema,
  waitSchema,
} from './daemon-api.ts'
import { modelFactsShape } from './model-facts.ts'
import { faultReportSchema } from './fault-schema.ts'
import { record, time } from './fields.ts'
import {
  APPROVAL_DECISIONS,
  CANCEL_ACTORS,
  EVENT_TYPES,
  type EventType,
  MOVE_REASONS,
  RESUME_REASONS,
  RETRY_ACTIONS,
  TOOL_OUTCOMES,
} from './names.ts'
import { execExitSchema } from './runner-api.ts'

/** Fields of every event. */
const envelope = { seq: z.int(), sessionId: z.string(), turnId: z.string(), at: time }

const event = <const T extends EventType, S extends z.ZodRawShape>(type: T, shape: S) =>
  record({ type: z.literal(type), ...envelope, ...shape })

const partOf = { step: z.int(), attempt: z.int(), part: z.string() }
const stream = z.enum(['stdout', 'stderr'])
const offset = z.int().optional()

/** Without its key, and without the secrets of its address. */
const turnProviderSchema = record({
  ...providerViewSchema.shape,
  profile: z.string().optional(),
  ...modelFactsShape,
  apiKeyEnv: z.string().optional().describe('the variable that held the key'),
  isNamed: z.boolean().optional().describe('the configuration defines it by this name'),
  keyMark: z
    .string()
    .optional()
    .describe("tells a daemon that has a key whether it is the session's; reveals nothing of it"),
  keyFrom: z
    .enum(['session', 'daemon'])
    .optional()
    .describe("whose key it uses: the session's, which is only in memory, or the daemon's"),
})
export type TurnProvider = z.infer<typeof turnProviderSchema>

const fileNoteSchema = record({
  before: z.string().nullable().describe('SHA-256 of the file as it is; null if there is none'),
  after: z.string().describe('SHA-256 of what it will be'),
})

const traceparent = z.string().optional().describe("the turn's first span, as a W3C traceparent")

const responseSchema = z.union([
  record({ action: z.literal('accept'), content: answerValueSchema }),
  record({ action: z.enum(['decline', 'cancel']) }),
])
const continuesSchema = record({
  state: z.string().optional().describe("the server's own; it gets it back unchanged"),
  responses: z.record(z.string(), responseSchema).describe('to earlier questions of the same request'),
  open: z.string().optional().describe('the question that this event asks'),
})

export const eventSchemas = {
  'turn-queued': event('turn-queued', {
    prompt: z.string(),
    behind: record({ sessionId: z.string(), turnId: z.string(), workspace: z.string() })
      .optional()
      .describe('the turn of another session that works in the same folder'),
    traceparent,
  }),
  'turn-start': event('turn-start', {
    prompt: z.string(),
    traceparent,
    instructions: z
      .array(instructionsFileSchema)
      .readonly()
      .optional()
      .describe("the project's instructions, nearest first"),
    system: z.string().optional().describe('the system prompt from this turn on; left out if it did not change'),
    model: z.string().optional(),
    provider: turnProviderSchema.optional().describe('the model server that this turn uses to its end'),
    missingTools: z
      .array(record({ server: z.string(), because: z.string() }))
      .readonly()
      .optional()
      .describe('servers whose tools were not ready in time; the tools join once they are'),
  }),
  'step-start': event('step-start', {
    step: z.int(),
    model: z.string().optional().describe('the model that is asked'),
  }),
  'text-delta': event('text-delta', { ...partOf, text: z.string() }),
  'reasoning-delta': event('reasoning-delta', { ...partOf, text: z.string() }),
  'part-discarded': event('part-discarded', { ...partOf, because: faultReportSchema }),
  'tool-draft': event('tool-draft', { ...partOf, tool: z.string(), argumentsBytes: z.int() }),
  'tool-call': event('tool-call', {
    step: z.int(),
    callId: z.string(),
    tool: z.string(),
    arguments: z.record(z.string(), z.unknown()),
    execId: z.string(),
    traceparent: z
      .string()
      .optional()
      .describe("the call's span, as a W3C traceparent, if it has one; its command gets it as TRACEPARENT"),
    definition: z.string().optional().describe('marks the definition of the tool that the model was shown'),
    notesFile: z
      .boolean()
      .optional()
      .describe('true: a `tool-output` with `file` comes before the call writes its file; without one it has not'),
    usage: usageSchema.optional().describe('on the first call of an answer: what that answer used'),
    requestBytes: z.int().optional().describe('beside `usage`: size of the request that it counts'),
    cost: costSchema.optional().describe('what that answer cost'),
  }),
  'tool-output': event('tool-output', {
    callId: z.string(),
    stream,
    text: z.string(),
    execSeq: z.int().optional().describe("the exec's events up to this seq are journalled"),
    execOffsets: record({ stdout: offset, stderr: offset }).optional().describe('bytes journalled of later events'),
    sent: record({
      server: z.string(),
      taskId: z.string().optional().describe("the server's handle of a call that it runs as a task"),
      refused: z.boolean().optional().describe('true: the server certainly did not run what was sent last'),
    })
      .optional()
      .describe('the call leaves for an MCP server now; the text is empty'),
    file: fileNoteSchema.optional().describe('the call writes its file now; the text is empty'),
    late: z
      .enum(['ok', 'failed'])
      .optional()
      .describe('the text is the answer to a call that was reported as unknown before'),
  }),
  'tool-result': event('tool-result', {
    callId: z.string(),
    outcome: z.enum(TOOL_OUTCOMES),
    text: z.string(),
    exit: execExitSchema.nullable().optional(),
  }),
  retry: event('retry', {
    step: z.int(),
    attempt: z.int(),
    fault: faultReportSchema,
    action: z.enum(RETRY_ACTIONS),
    delayMs: z.number(),
    nextAt: time,
    max: z.int(),
    usage: usageSchema.optional().describe('what the failed attempt used'),
    overflow: record({ model: z.string(), requestBytes: z.int() })
      .optional()
      .describe('the request was too long for this model; a `compacted` event follows'),
    cost: costSchema.optional().describe('what it cost'),
    to: record({ model: z.string(), provider: providerViewSchema })
      .optional()
      .describe('with `fallback`: the model that is asked next, and its server'),
    callId: z.string().optional().describe('with `resolve`: the call that needs the runner'),
    told: record({ tool: z.string(), text: z.string() })
      .optional()
      .describe('the call that the output limit cut: the model reads it as made, with this text as its result'),
    prefillRefused: z.boolean().optional().describe('the model refused to continue the kept text'),
    free: z.boolean().optional().describe('the failed attempt cost nothing, so patience bounds it and not attemptsMax'),
  }),
  compacted: event('compacted', {
    step: z.int(),
    fromStep: z.int().describe('first step that is shorter now; 0 stands for all steps of earlier turns'),
    toStep: z.int().describe('last step that is shorter now'),
    droppedResults: z.int().describe('how many tool results became a short note'),
    summaryBytes: z.int().describe('size of the summary that replaced the oldest steps; 0: none did'),
    requestBytesBefore: z.int(),
    requestBytesAfter: z.int(),
    results: z.array(z.string()).readonly().optional().describe('the calls whose results became a short note'),
    summary: record({ text: z.string(), upToSeq: z.int() })
      .optional()
      .describe('the summary; it replaces all steps up to that seq'),
    attempt: z.int().optional().describe('the attempt that wrote the summary'),
    usage: usageSchema.optional().describe('what the summary used'),
    cost: costSchema.optional().describe('what it cost'),
  }),
  parked: event('parked', {
    fault: faultReportSchema,
    resumeAt: time.nullable(),
    because: z.string().optional().describe('why it is not retried at once'),
    wait: waitSchema.optional().describe('what it waits for; earlier versions did not write it'),
    usage: usageSchema.optional().describe('what the attempt that parked the turn used'),
    cost: costSchema.optional().describe('what it cost'),
  }),
  resumed: event('resumed', { because: z.enum(RESUME_REASONS) }),
  'taken-over': event('taken-over', {
    epoch: z.int(),
    daemon: z.string().optional().describe('the name of the new owner, if daemons share a store'),
  }),
  'box-moved': event('box-moved', {
    from: z.string().describe('the runner that was declared lost'),
    to: z.string().describe('the runner that gets a new box'),
    filesKept: z.boolean().describe('false: every file of the workspace is lost'),
    because: z.enum(MOVE_REASONS).describe('dropped: by a person; silent: it was not heard of for replaceAfterMs'),
  }),
  'model-server': event('model-server', {
    state: z.enum(SERVE_STATES),
    since: time,
    line: z.string().optional().describe('the last line on its stderr'),
  }),
  'approval-requested': event('approval-requested', {
    callId: z.string(),
    tool: z.string(),
    arguments: z.record(z.string(), z.unknown()),
    why: z.string(),
    expiresAt: time.nullable(),
    question: callQuestionSchema
      .optional()
      .describe('the call has left, and its server asks this before it completes it'),
    continues: continuesSchema.optional().describe('what continues the call with the answer, also after a restart'),
  }),
  approval: event('approval', {
    callId: z.string(),
    decision: z.enum(APPROVAL_DECISIONS),
    actor: z.string(),
    reason: z.string().nullable(),
    question: z.string().optional().describe('the id of the question that this answers'),
    value: answerValueSchema.optional(),
  }),
  'turn-end': event('turn-end', {
    text: z.string(),
    usage: usageSchema,
    steps: z.int(),
    faultsSurvived: z.int(),
    cost: costSchema.optional().describe('of the whole turn, if prices are set'),
    ...finishFields,
    ...changedFields,
  }),
  'turn-error': event('turn-error', {
    ...faultReportSchema.shape,
    turnId: z.string(),
    actor: z.enum(CANCEL_ACTORS).optional(),
    usage: usageSchema.optional().describe('of the whole turn'),
    cost: costSchema.optional().describe('of the whole turn, if prices are set'),
    ...changedFields,
  }),
} as const satisfies Record<EventType, z.ZodType>

export const sessionEventSchema = z.discriminatedUnion('type', [
  eventSchemas['turn-queued'],
  eventSchemas['turn-start'],
  eventSchemas['step-start'],
  eventSchemas['text-delta'],
  eventSchemas['reasoning-delta'],
  eventSchemas['part-discarded'],
  eventSchemas['tool-draft'],
  eventSchemas['tool-call'],
  eventSchemas['tool-output'],
  eventSchemas['tool-result'],
  eventSchemas.retry,
  eventSchemas.compacted,
  eventSchemas.parked,
  eventSchemas.resumed,
  eventSchemas['taken-over'],
  eventSchemas['box-moved'],
  eventSchemas['model-server'],
  eventSchemas['approval-requested'],
  eventSchemas.approval,
  eventSchemas['turn-end'],
  eventSchemas['turn-error'],
])
export type SessionEvent = z.infer<typeof sessionEventSchema>
export type SessionEventOf<T extends EventType> = Extract<SessionEvent, { type: T }>

/** An event before the journal gives it a place: everything but seq, session and time. */
export type EventDraft = DraftOf<SessionEvent>
export type EventDraftOf<T extends EventType> = Extract<EventDraft, { type: T }>
type DraftOf<E> = E extends SessionEvent ? Omit<E, 'seq' | 'sessionId' | 'at'> : never

const unknownEventSchema = record({ type: z.string(), ...envelope })
/** An event of a type that only a newer version knows. */
export type UnknownEvent = z.infer<typeof unknownEventSchema>
export type AnyEvent = SessionEvent | UnknownEvent

export function isKnownEvent(value: AnyEvent): value is SessionEvent {
  return KNOWN_TYPES.has(value.type)
}

/** An event from outside: a journal, an SSE frame, a WebSocket frame. A known type with wrong fields is a fault. */
export function parseEvent(value: unknown): AnyEvent {
  const base = unknownEventSchema.safeParse(value)
  if (base.success && !isKnownEvent(base.data)) return base.data
  const known = sessionEventSchema.safeParse(value)
  if (known.success) return known.data
  const [issue] = known.error.issues
  const detail = `${issue?.path.join('.') || 'the event'}: ${issue?.message ?? 'not an event'}`
  throw new Fault('other', { error: `cannot read an event (${detail})`, errorRaw: detail })
}

// ---- details ----

const KNOWN_TYPES: ReadonlySet<string> = new Set(EVENT_TYPES)
