/** What crosses the boundary of a daemon besides its events: sessions, turns, WebSocket frames. */
import { z } from 'zod'
import { body, flag, oneOf, text, time } from './fields.ts'
import { faultReportSchema } from './fault-schema.ts'
import { policySchema } from './policy-schema.ts'
import { boxCreateSchema } from './runner-api.ts'

export const SESSION_STATES = ['idle', 'busy', 'parked'] as const
export const TURN_STATES = ['queued', 'running', 'retrying', 'parked', 'finished', 'failed', 'cancelled'] as const
export type SessionState = (typeof SESSION_STATES)[number]
export type TurnState = (typeof TURN_STATES)[number]

/** Tools that the daemon brings along. */
export const TOOL_NAMES = ['bash', 'read', 'write', 'edit'] as const
export type ToolName = (typeof TOOL_NAMES)[number]

export const sessionCreateSchema = body({
  title: z.union([text(500, 'a title'), z.null()]).optional(),
  model: text(200, "a model's name")
    .refine((name) => name.trim() !== '', { error: "a model's name that is not empty" })
    .optional(),
  box: boxCreateSchema.optional(),
  tools: z.array(oneOf(TOOL_NAMES), { error: `a list of ${TOOL_NAMES.join(', ')}` }).optional(),
  policy: policySchema.optional(),
})
export type SessionCreate = z.infer<typeof sessionCreateSchema>

export const sessionSchema = z.looseObject({
  id: z.string(),
  title: z.string().nullable(),
  state: z.enum(SESSION_STATES),
  turnId: z.string().nullable(),
  model: z.string(),
  boxId: z.string(),
  createdAt: time,
  lastSeq: z.int(),
})
export type Session = z.infer<typeof sessionSchema>

export const sessionListSchema = z.looseObject({ sessions: z.array(sessionSchema), next: z.string().optional() })

/** As much as a request body has room for. */
export const PROMPT_CHARS_MAX = 1024 * 1024

const promptField = text(PROMPT_CHARS_MAX, 'a prompt').refine((prompt) => prompt.trim() !== '', {
  error: 'a prompt that is not empty',
})

export const turnCreateSchema = body({ prompt: promptField, queue: flag().optional() })
export const turnReceiptSchema = z.looseObject({ turnId: z.string(), seq: z.int() })
export const turnCancelSchema = body({ reason: text(500, 'a reason').optional() })
export const turnResumeSchema = body({})

/** A count of tokens. Unknown is never 0: its value is null. */
const tokensSchema = z.looseObject({ value: z.number().nullable(), quality: z.enum(['known', 'estimated', 'unknown']) })
export const usageSchema = z.looseObject({ inputTokens: tokensSchema, outputTokens: tokensSchema })
export type Usage = z.infer<typeof usageSchema>

export const turnSchema = z.looseObject({
  id: z.string(),
  sessionId: z.string(),
  state: z.enum(TURN_STATES),
  prompt: z.string(),
  steps: z.int(),
  attempts: z.int(),
  parked: z.looseObject({ category: z.string(), since: time, resumeAt: time.nullable() }).nullable(),
  fault: faultReportSchema.nullable(),
  result: z.looseObject({ text: z.string() }).nullable(),
  usage: usageSchema,
  startedAt: time.nullable(),
  endedAt: time.nullable(),
})
export type Turn = z.infer<typeof turnSchema>

// ---- WebSocket ----

export const WS_METHODS = ['prompt', 'cancel', 'resume', 'subscribe', 'unsubscribe', 'sessions', 'session'] as const
export type WsMethod = (typeof WS_METHODS)[number]
export const WS_PROTOCOL = 'breakfall.v1'
export const WS_TOKEN_PREFIX = 'breakfall.token.'

const sessionId = text(200, "a session's id")
const turnId = text(200, "a turn's id")

/** One schema of parameters per method: a method without one does not compile. */
export const wsParamsSchemas = {
  prompt: body({
    sessionId,
    prompt: promptField,
    queue: flag().optional(),
    idempotencyKey: text(255, 'a key').optional(),
  }),
  cancel: body({ turnId, reason: text(500, 'a reason').optional() }),
  resume: body({ turnId }),
  subscribe: body({ sessionId, after: z.union([z.string(), z.int()], { error: 'a cursor or a seq' }).optional() }),
  unsubscribe: body({ sessionId }),
  sessions: body({ cursor: z.string().optional() }),
  session: body({ sessionId }),
} as const satisfies Record<WsMethod, z.ZodType>

export const wsRequestSchema = body({
  id: z.union([z.int(), z.string().max(200)], { error: 'a number or a string' }),
  method: oneOf(WS_METHODS),
  params: z.unknown().optional(),
})
