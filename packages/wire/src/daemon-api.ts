/** The daemon's API besides its events: sessions, turns, the daemon itself, WebSocket requests. */
import { FAULT_CLASSES } from '@breakfall/faults'
import { z } from 'zod'
import { body, flag, httpUrl, integer, label, oneOf, providerName, record, text, time } from './fields.ts'
import { faultReportSchema } from './fault-schema.ts'
import { modelFactsShape } from './model-facts.ts'
import {
  APPROVAL_DECISIONS,
  CANCEL_ACTORS,
  PROMPT_CHARS_MAX,
  QUESTIONS,
  SAME_FOLDER,
  SESSION_FILTERS,
  SESSION_STATES,
  SYSTEM_CHARS_MAX,
  TOOL_NAMES,
  TURN_STATES,
  WAITS_FOR,
  WS_METHODS,
  type WsMethod,
} from './names.ts'
import { policySchema } from './policy-schema.ts'
import { boxCreateSchema } from './runner-api.ts'

/** What the user says to the model in every session, besides the prompt. */
export const agentSchema = body({
  systemPrompt: text(SYSTEM_CHARS_MAX, 'a system prompt').optional(),
  append: text(SYSTEM_CHARS_MAX, 'a text').optional(),
})
export type AgentInput = z.infer<typeof agentSchema>

/** A file of the project that goes to the model, or the reason why it does not. */
export const instructionsFileSchema = record({
  path: z.string().describe('relative to the workspace'),
  bytes: z.int(),
  sha256: z.string().optional().describe('of the whole file'),
  sentBytes: z.int().describe('less than `bytes` if it was cut'),
  refused: z.string().optional().describe('why nothing of it was sent'),
})
export type InstructionsFile = z.infer<typeof instructionsFileSchema>

const KEY = 'a key: 1 to 8192 printable ASCII characters without spaces or line breaks'

/** A model server, as a session's creator gives it. The key stays in memory and is never returned. */
export const providerGivenSchema = body({
  name: providerName().optional(),
  baseUrl: httpUrl,
  api: text(40, 'the name of an API')
    .optional()
    .describe('default: openai-chat, and anthropic-messages for a host of anthropic.com'),
  apiKey: z
    .string({ error: KEY })
    .regex(/^[\x21-\x7e]{1,8192}$/, { error: KEY })
    .optional(),
  apiKeyEnv: text(256, 'the name of an environment variable')
    .optional()
    .describe('the variable that holds the key, for messages to name'),
  profile: text(40, 'the name of a profile').optional(),
  ...modelFactsShape,
})
export type ProviderGiven = z.infer<typeof providerGivenSchema>

/** The model server of a session or a turn, without its key. */
export const providerViewSchema = record({ name: z.string(), baseUrl: z.string(), api: z.string() })
export type ProviderView = z.infer<typeof providerViewSchema>

const changeable = {
  title: text(500, 'null, or a title').nullable().optional(),
  model: text(200, "a model's name")
    .refine((name) => name.trim() !== '', { error: "a model's name that is not empty" })
    .refine((name) => !name.trim().endsWith('/'), { error: "provider/name or a model's name: no slash at its end" })
    .optional()
    .describe(
      'provider/name, or the name of a model at `provider` or at the default provider; default: the first model that the server lists',
    ),
  provider: providerGivenSchema.optional(),
}

export const sessionPatchSchema = body(changeable)
export type SessionPatch = z.infer<typeof sessionPatchSchema>

const toolName = text(200, 'the name of a tool').refine((name) => /^[A-Za-z][\w-]*$/.test(name), {
  error: `one of ${TOOL_NAMES.join(', ')}, or the name of a tool from outside`,
})

export const placementSchema = body({
  labels: z.array(label(), { error: 'a list of labels' }).max(32, { error: 'at most 32 labels' }).optional(),
  replace: oneOf(['never', 'auto'])
    .optional()
    .describe(
      'never: only a person who drops its runner moves the box; auto: replaceAfterMs moves it, too, if that is set. Default: auto',
    ),
})
export type Placement = z.infer<typeof placementSchema>

export const sessionCreateSchema = body({
  ...changeable,
  box: boxCreateSchema.optional(),
  tools: z
    .array(toolName, { error: `a list of ${TOOL_NAMES.join(', ')}, mcp__SERVER, mcp__SERVER__TOOL or your own tools` })
    .optional()
    .describe('default: all'),
  policy: policySchema.optional(),
  agent: agentSchema.optional(),
  placement: placementSchema.optional().describe('which of the joined runners may have its box'),
})
export type SessionCreate = z.infer<typeof sessionCreateSchema>

export const waitSchema = record({
  for: z.enum(WAITS_FOR),
  question: z.enum(QUESTIONS).optional().describe('what it asks a person'),
  needsPerson: z.boolean().describe('a person has to act: answer, or change something'),
  until: time.nullable().describe('when it is resumed at the latest; null: no time is known'),
  expiresAt: time.nullable().describe('when the turn ends if nothing has resumed it; null: it waits on'),
})
export type Wait = z.infer<typeof waitSchema>

const parkedField = record({
  category: z.string(),
  since: time,
  resumeAt: time.nullable(),
  because: z.string().optional(),
  wait: waitSchema.optional().describe('what it waits for; earlier versions did not write it'),
}).nullable()

/** A turn in a list of sessions: how it is or how it ended, without its text. */
/** How the answer of a finished turn ended. */
export const finishFields = {
  finish: z.string().optional().describe('why the model stopped, if not because it was done'),
  unproven: z.boolean().optional().describe('true: the server sent no proof that the answer is complete'),
}

export const turnSummarySchema = record({
  id: z.string(),
  state: z.enum(TURN_STATES),
  prompt: z.string().describe('its first 200 characters'),
  steps: z.int(),
  attempts: z.int(),
  faultsSurvived: z.int(),
  unknownOutcomes: z.int(),
  startedAt: time.nullable(),
  endedAt: time.nullable(),
  fault: record({ category: z.string(), class: z.string(), title: z.string(), error: z.string() }).nullable(),
  parked: parkedField,
  retry: record({ attempt: z.int(), max: z.int(), nextAt: time, category: z.string() }).nullable(),
  ...finishFields,
  marks: z.string().describe('up to 64 characters: - a step, x a fault, p a park, k a takeover, ? an unknown outcome'),
})
export type TurnSummary = z.infer<typeof turnSummarySchema>

export const sessionSchema = record({
  id: z.string(),
  title: z.string().nullable(),
  state: z.enum(SESSION_STATES),
  turnId: z.string().nullable(),
  model: z.string(),
  provider: providerViewSchema.nullable().optional().describe('null: the daemon has no model'),
  boxId: z.string(),
  createdAt: time,
  lastSeq: z.int(),
  workspace: z.string().nullable().optional().describe("the host folder of the session's box"),
  tools: z.array(z.string()).readonly().optional(),
  policy: record(policySchema.shape).optional(),
  instructions: z.array(instructionsFileSchema).readonly().optional().describe('as of the last turn'),
  quarantined: faultReportSchema.nullable().optional().describe('what is wrong with a damaged journal'),
  live: z.boolean().optional().describe('false: the turn is unfinished and no daemon works on it'),
  updatedAt: time.optional().describe('when its turns last changed state'),
  turn: turnSummarySchema.nullable().optional().describe('the current turn, else the last one'),
  runnerId: z.string().nullable().optional().describe('the runner that has its box'),
  owner: record({ name: z.string(), since: time })
    .nullable()
    .optional()
    .describe('the daemon that works on it, if daemons share a store'),
})
export type Session = z.infer<typeof sessionSchema>

export const sessionListSchema = record({
  sessions: z.array(sessionSchema).readonly(),
  next: z.string().optional(),
  counts: z
    .partialRecord(z.enum(SESSION_FILTERS), z.int())
    .optional()
    .describe('sessions per state, under the same filters'),
})
export type SessionList = z.infer<typeof sessionListSchema>

const promptField = text(PROMPT_CHARS_MAX, 'a prompt').refine((prompt) => prompt.trim() !== '', {
  error: 'a prompt that is not empty',
})

const sameFolder = oneOf(SAME_FOLDER).optional()

export const turnCreateSchema = body({ prompt: promptField, queue: flag().optional(), sameFolder })
export const turnReceiptSchema = record({ turnId: z.string(), seq: z.int() })
export type TurnReceipt = z.infer<typeof turnReceiptSchema>
export const turnCancelSchema = body({ reason: text(500, 'a reason').optional() })
const lostKey = providerGivenSchema.optional().describe("the turn's own provider, with a key that the daemon has lost")

export const turnResumeSchema = body({ provider: lostKey })
export type TurnResume = z.infer<typeof turnResumeSchema>

/** What a server asks before it completes a call. */
export const callQuestionSchema = record({
  id: z.string().describe('names the question in the answer'),
  server: z.string(),
  message: z.string(),
  schema: z.record(z.string(), z.unknown()).describe('the fields of the answer, as a JSON schema'),
})
export type CallQuestion = z.infer<typeof callQuestionSchema>

/** The fields of an answer. */
export const answerValueSchema = z.record(
  z.string(),
  z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]),
)
export type AnswerValue = z.infer<typeof answerValueSchema>

export const turnApproveSchema = body({
  callId: text(500, 'the id of a call'),
  decision: oneOf(APPROVAL_DECISIONS),
  reason: text(2_000, 'a reason').optional(),
  question: text(100, 'the id of a question').optional().describe('of `question`, if the call waits for an answer'),
  value: answerValueSchema.optional().describe('the answer to it; fields that are left out have their defaults'),
  provider: lostKey,
})
export type TurnApprove = z.infer<typeof turnApproveSchema>

/** Which ended sessions to delete. Without a criterion, those that were not used for this long. */
export const PRUNE_OLDER_THAN_DAYS = 30

export const pruneSchema = body({
  olderThanMs: integer(0, 3_650 * 86_400_000)
    .optional()
    .describe(`0: however new they are. Default: ${PRUNE_OLDER_THAN_DAYS} days, unless keep is given`),
  keep: integer(0, 1_000_000_000).optional(),
  dryRun: flag().optional(),
})
export type PruneInput = z.infer<typeof pruneSchema>
export const prunedSchema = record({ sessions: z.int(), bytes: z.int() })
export type Pruned = z.infer<typeof prunedSchema>
export const boxReleaseSchema = body({})
export const boxReleasedSchema = record({ released: z.boolean() })

const filterList = z.string().refine((value) => value.split(',').every((state) => isFilter(state)), {
  error: `one or more of ${SESSION_FILTERS.join(', ')}, separated by commas`,
})

const isFilter = (state: string): boolean => SESSION_FILTERS.some((filter) => filter === state)

/** Which sessions to list. As query parameters, every value is text. */
export const sessionQuerySchema = body({
  state: filterList.optional(),
  class: oneOf(FAULT_CLASSES).optional(),
  category: text(100, 'a category').optional(),
  q: text(200, 'a search text').optional(),
  workspace: text(4096, 'a folder').optional(),
  since: z.iso.datetime({ error: 'a time in ISO 8601 and UTC' }).optional(),
  limit: integer(1, 100).optional(),
  cursor: z.uuid({ error: 'the "next" of an earlier page' }).optional(),
  counts: flag().optional(),
})
export type SessionQuery = z.infer<typeof sessionQuerySchema>

/** A count of tokens. Unknown is never 0: its value is null. */
const tokensSchema = record({ value: z.number().nullable(), quality: z.enum(['known', 'estimated', 'unknown']) })
export const usageSchema = record({
  inputTokens: tokensSchema,
  outputTokens: tokensSchema,
  cacheReadTokens: z.number().optional().describe('of the input, as far as servers said: read from their caches'),
  cacheWriteTokens: z.number().optional().describe('of the input, as far as servers said: written to their caches'),
})
export type Usage = z.infer<typeof usageSchema>

/** What it cost, from the configured prices. Unknown is never 0: its value is null. */
export const costSchema = record({
  value: z.number().nullable(),
  currency: z.string(),
  quality: z.enum(['known', 'estimated', 'unknown']),
})
export type Cost = z.infer<typeof costSchema>

/** Which files a turn changed. */
export const changedFields = {
  filesChanged: z
    .array(z.string())
    .readonly()
    .optional()
    .describe("the first hundred; what commands changed is known from the turn's checkpoint, once the turn has ended"),
  filesUnknown: z.boolean().optional().describe('true: commands ran, and what they changed is not fully known'),
} as const

export const turnSchema = record({
  id: z.string(),
  sessionId: z.string(),
  state: z.enum(TURN_STATES),
  prompt: z.string(),
  steps: z.int(),
  attempts: z.int(),
  parked: parkedField,
  fault: record({ ...faultReportSchema.shape, actor: z.enum(CANCEL_ACTORS).optional() }).nullable(),
  result: record({ text: z.string() }).nullable(),
  ...finishFields,
  usage: usageSchema,
  startedAt: time.nullable(),
  endedAt: time.nullable(),
  faultsSurvived: z.int().optional(),
  live: z.boolean().optional().describe('false: unfinished, and no daemon works on it'),
  model: z.string().optional(),
  provider: providerViewSchema.nullable().optional(),
  cost: costSchema.optional().describe('if prices are set'),
  tools: z.record(z.string(), z.int()).optional().describe('how often each tool was called'),
  ...changedFields,
  longOutputs: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('execs whose output the model read only in part; the newest ten'),
  unknownOutcomes: z.int().optional().describe('calls that may or may not have run'),
  firstSeq: z.int().optional().describe("the turn's first event"),
  lastSeq: z.int().optional().describe("the turn's last event"),
  approval: record({
    callId: z.string(),
    tool: z.string(),
    arguments: z.record(z.string(), z.unknown()),
    why: z.string(),
    expiresAt: time.nullable(),
    question: callQuestionSchema.optional().describe('its server asks this, and waits for the answer'),
  })
    .optional()
    .describe('the call that waits for an approval, or for an answer to its server'),
})
export type Turn = z.infer<typeof turnSchema>

export const turnListSchema = record({ turns: z.array(turnSchema).readonly(), next: z.string().optional() })
export type TurnList = z.infer<typeof turnListSchema>

// ---- the daemon itself ----

/** Clients and daemons with the same number understand each other. */
export const API_NUMBER = 1

export const daemonHealthSchema = record({
  status: z.literal('ok'),
  version: z.string(),
  api: z.int().optional().describe('clients and daemons with the same number understand each other'),
})

export const daemonReadySchema = record({
  status: z.enum(['ready', 'not_ready']),
  checks: record({
    journal: z.string(),
    runner: z.string(),
    closing: z.boolean(),
    store: z.string().optional(),
    lease: z.string().optional(),
    hints: z.string().optional(),
  }),
})
export type DaemonReady = z.infer<typeof daemonReadySchema>

export const daemonModelSchema = record({ name: z.string(), baseUrl: z.string() })
export type DaemonModel = z.infer<typeof daemonModelSchema>

export const faultListSchema = record({
  faults: z
    .array(
      record({
        category: z.string(),
        class: z.string(),
        boundary: z.string(),
        next: z.string(),
        http: z.int(),
        docs: z.string(),
      }),
    )
    .readonly(),
})
export type FaultList = z.infer<typeof faultListSchema>

/** SSE `reset` (the cursor does not fit; the replay starts over) and `closed` (no more events, or the reader is too slow). */
export const streamNoticeSchema = record({ reason: z.string() })
export type StreamNotice = z.infer<typeof streamNoticeSchema>

// ---- WebSocket ----

const sessionId = text(200, "a session's id")
const turnId = text(200, "a turn's id")

/** One schema of parameters per method: a method without one does not compile. */
export const wsParamsSchemas = {
  prompt: body({
    sessionId,
    prompt: promptField,
    queue: flag().optional(),
    sameFolder,
    idempotencyKey: text(255, 'a key')
      .refine((key) => key !== '', { error: 'a key of 1 to 255 characters' })
      .optional(),
  }),
  cancel: body({ turnId, reason: text(500, 'a reason').optional() }),
  resume: body({ turnId, provider: providerGivenSchema.optional() }),
  subscribe: body({ sessionId, after: z.union([z.string(), z.int()], { error: 'a cursor or a seq' }).optional() }),
  unsubscribe: body({ sessionId }),
  sessions: sessionQuerySchema,
  session: body({ sessionId }),
  watch: body({}),
} as const satisfies Record<WsMethod, z.ZodType>

export const wsRequestSchema = body({
  id: z.union([z.int(), z.string().max(200)], { error: 'a number or a string' }),
  method: oneOf(WS_METHODS),
  params: z.unknown().optional(),
})
