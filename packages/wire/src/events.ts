/** The events of a session, as they stand in the journal, on SSE and on the WebSocket. */
import { z } from 'zod'
import { usageSchema } from './daemon-api.ts'
import { faultReportSchema } from './fault-schema.ts'
import { time } from './fields.ts'
import { execExitSchema } from './runner-api.ts'

export const EVENT_TYPES = [
  'turn-queued',
  'turn-start',
  'step-start',
  'text-delta',
  'reasoning-delta',
  'part-discarded',
  'tool-draft',
  'tool-call',
  'tool-output',
  'tool-result',
  'retry',
  'parked',
  'resumed',
  'taken-over',
  'turn-end',
  'turn-error',
] as const
export type EventType = (typeof EVENT_TYPES)[number]

export const TERMINAL_EVENT_TYPES = ['turn-end', 'turn-error'] as const satisfies readonly EventType[]
export const RETRY_ACTIONS = ['retry', 'resolve', 'resume', 'fallback'] as const
export const TOOL_OUTCOMES = ['ok', 'failed', 'unknown', 'cancelled'] as const
export const RESUME_REASONS = ['time', 'signal', 'person', 'restart'] as const
export const CANCEL_ACTORS = ['user', 'client_lost', 'deadline', 'shutdown', 'superseded'] as const

/** What every event has. */
const envelope = { seq: z.int(), sessionId: z.string(), turnId: z.string(), at: time }

const event = <const T extends EventType, S extends z.ZodRawShape>(type: T, shape: S) =>
  z.looseObject({ type: z.literal(type), ...envelope, ...shape })

const partOf = { step: z.int(), attempt: z.int(), part: z.string() }

export const eventSchemas = {
  'turn-queued': event('turn-queued', { prompt: z.string() }),
  'turn-start': event('turn-start', { prompt: z.string() }),
  'step-start': event('step-start', { step: z.int() }),
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
  }),
  'tool-output': event('tool-output', { callId: z.string(), stream: z.enum(['stdout', 'stderr']), text: z.string() }),
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
  }),
  parked: event('parked', { fault: faultReportSchema, resumeAt: time.nullable() }),
  resumed: event('resumed', { because: z.enum(RESUME_REASONS) }),
  'taken-over': event('taken-over', { epoch: z.int() }),
  'turn-end': event('turn-end', { text: z.string(), usage: usageSchema, steps: z.int(), faultsSurvived: z.int() }),
  'turn-error': event('turn-error', {
    ...faultReportSchema.shape,
    turnId: z.string(),
    actor: z.enum(CANCEL_ACTORS).optional(),
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
  eventSchemas.parked,
  eventSchemas.resumed,
  eventSchemas['taken-over'],
  eventSchemas['turn-end'],
  eventSchemas['turn-error'],
])
export type SessionEvent = z.infer<typeof sessionEventSchema>
export type SessionEventOf<T extends EventType> = Extract<SessionEvent, { type: T }>

export function isTerminal(event: { readonly type: string }): boolean {
  return event.type === 'turn-end' || event.type === 'turn-error'
}
