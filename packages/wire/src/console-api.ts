/** What the console needs besides sessions and turns: tickets and tokens, the system around the sessions, the watch, and chaos. */
import { FAULT_CLASSES } from '@breakfall/faults'
import { z } from 'zod'
import { sessionSchema } from './daemon-api.ts'
import { diagnosticSchema } from './fault-schema.ts'
import { body, flag, integer, oneOf, record, text, time } from './fields.ts'
import { daemonListSchema, runnerListSchema } from './fleet-api.ts'
import { SESSION_FILTERS } from './names.ts'
import { boxSchema, execSchema } from './runner-api.ts'

/** Valid once, for two minutes: the part of an address that a person opens. */
export const consoleTicketSchema = record({ ticket: z.string(), expiresAt: time })
export type ConsoleTicket = z.infer<typeof consoleTicketSchema>
export const consoleTicketCreateSchema = body({})

export const consoleTokenCreateSchema = body({ ticket: text(200, 'a ticket') })
export const consoleTokenSchema = record({ token: z.string(), expiresAt: time })
export type ConsoleToken = z.infer<typeof consoleTokenSchema>

// ---- the system ----

/** A process that the daemon runs, and how its last run ended. */
const childSchema = record({
  status: z.enum(['stopped', 'starting', 'ready', 'busy', 'stopping', 'failed', 'backoff', 'given_up']),
  pid: z.int().nullable(),
  attempt: z.int().optional().describe('starting and backoff: failures in a row'),
  until: time.optional().describe('backoff: the time of the next start'),
  reason: z.string().optional().describe('given_up: why'),
  line: z.string().nullable().describe('the last line on its stderr'),
  lastExit: record({
    kind: z.string(),
    code: z.int().nullable(),
    signal: z.string().nullable(),
    phase: z.string(),
    uptimeMs: z.number(),
    headline: z.string(),
    diagnoses: z.array(diagnosticSchema).readonly(),
    tail: z.array(z.string()).readonly(),
  }).nullable(),
})
export type Child = z.infer<typeof childSchema>

export const systemSchema = record({
  bootId: z.string().describe('of this process: another one means that the daemon restarted'),
  version: z.string(),
  startedAt: time,
  now: time,
  tokenFile: z.string(),
  stateDir: z.string(),
  journal: record({
    bytes: z.int(),
    freeBytes: z.int().nullable().describe('on the disk of the state folder'),
    isFull: z.boolean(),
    quarantined: z.int().describe('damaged sessions'),
  }),
  turns: record({ driven: z.int(), parked: z.int() }),
  runner: record({
    state: z.enum(['connected', 'starting', 'looking', 'none']),
    url: z.string().nullable(),
    runnerId: z.string().nullable(),
    since: time,
    isolation: z.string().nullable(),
  }),
  model: record({
    name: z.string(),
    baseUrl: z.string(),
    profile: z.string().nullable(),
    fallbacks: z.array(record({ name: z.string(), baseUrl: z.string() })).readonly(),
    serve: childSchema.nullable(),
  }),
  workspaces: z
    .array(z.string())
    .readonly()
    .describe('host folders that callers may use, by a setting or a flag; not those of a run'),
  daemons: daemonListSchema.shape.daemons.optional().describe('those that share the store, and live'),
  runners: runnerListSchema.shape.runners.optional().describe('those that joined the fleet'),
  gateway: z.boolean(),
  chaos: z.boolean(),
})
export type System = z.infer<typeof systemSchema>

// ---- the watch ----

const countsSchema = z.partialRecord(z.enum(SESSION_FILTERS), z.int())

/** The first answer: every session with work, those that need a person, and those that ended last. */
export const watchSnapshotSchema = record({
  bootId: z.string(),
  at: time,
  counts: countsSchema,
  system: systemSchema,
  sessions: z.array(sessionSchema).readonly(),
  more: z.boolean().optional().describe('true: more sessions have work than are listed here'),
})
export type WatchSnapshot = z.infer<typeof watchSnapshotSchema>

/** What the gateway beside the daemon is doing: open streams, what happened last, and how its upstreams are. */
const gatewayViewSchema = record({
  at: time,
  live: z
    .array(
      record({
        requestId: z.string(),
        path: z.string(),
        model: z.string().optional(),
        stream: z.boolean(),
        startedAt: time,
        upstream: z.string().optional(),
        attempt: z.int(),
        state: z.enum(['asking', 'answering', 'waiting']),
        bytes: z.int(),
        lastFault: z.string().nullable(),
        nextAt: time.nullable(),
      }),
    )
    .readonly(),
  recent: z
    .array(
      record({
        at: time,
        requestId: z.string(),
        kind: z.enum(['fault', 'healed', 'lost', 'refused', 'repaired', 'unhealed']),
        category: z.string().nullable(),
        text: z.string(),
      }),
    )
    .readonly(),
  totals: record({
    requests: z.int(),
    attempts: z.int(),
    faults: z.int(),
    healed: z.int(),
    lost: z.int(),
    unhealed: z.int(),
    repaired: z.int(),
  }),
  upstreams: z
    .array(
      record({
        url: z.string(),
        isHealthy: z.boolean(),
        failuresInARow: z.int(),
        lastFault: z.string().nullable(),
      }),
    )
    .readonly(),
})

/** What changed: one field in each. `at` alone is the beat. */
export const watchChangeSchema = record({
  session: sessionSchema.optional(),
  deleted: z.string().optional(),
  counts: countsSchema.optional(),
  system: systemSchema.optional(),
  gateway: gatewayViewSchema.optional(),
  at: time.optional(),
})
export type WatchChange = z.infer<typeof watchChangeSchema>

// ---- the runner's boxes ----

export const boxOverviewSchema = record({
  boxes: z
    .array(record({ ...boxSchema.shape, runnerId: z.string().optional(), execs: z.array(execSchema).readonly() }))
    .readonly(),
  unreachable: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('ids of runners that did not answer: their boxes are missing here'),
})
export type BoxOverview = z.infer<typeof boxOverviewSchema>

// ---- one category ----

export const faultPageSchema = record({
  category: z.string(),
  class: z.string(),
  boundary: z.string(),
  next: z.string(),
  http: z.int(),
  title: z.string(),
  docs: z.string(),
  page: z.string().nullable().describe('Markdown'),
})

// ---- faults by fingerprint ----

/** As query parameters, every value is text. */
export const seenQuerySchema = body({
  since: z.iso.datetime({ error: 'a time in ISO 8601 and UTC' }).optional(),
  class: oneOf(FAULT_CLASSES).optional(),
  open: flag().optional(),
  limit: integer(1, 100).optional(),
  cursor: text(200, 'the "next" of an earlier page').optional(),
})

const faultGroupSchema = record({
  fingerprint: z.string(),
  category: z.string(),
  class: z.string(),
  boundary: z.string(),
  phase: z.string().nullable(),
  title: z.string(),
  sample: record({
    error: z.string(),
    errorRaw: z.string(),
    sessionId: z.string(),
    turnId: z.string(),
    seq: z.int(),
    at: time,
  }).describe('the latest one'),
  count: z.int(),
  sessions: z.int().describe('how many sessions met it'),
  firstAt: time,
  lastAt: time,
  survived: z.int().describe('the turn made progress afterwards'),
  parked: z.int().describe('the turn waits because of it'),
  ended: z.int().describe('the turn ended with it'),
  open: z.int().describe('not known yet'),
  hours: z.array(z.int()).readonly().describe('the last 24 hours in UTC, this one last'),
})
export type FaultGroup = z.infer<typeof faultGroupSchema>

export const faultsSeenSchema = record({ groups: z.array(faultGroupSchema).readonly(), next: z.string().optional() })

export const faultOccurrencesSchema = record({
  group: faultGroupSchema,
  occurrences: z
    .array(
      record({
        sessionId: z.string(),
        sessionTitle: z.string().nullable(),
        turnId: z.string(),
        seq: z.int(),
        at: time,
        step: z.int().nullable(),
        attempt: z.int().nullable(),
        became: z.enum(['open', 'parked', 'survived', 'ended']),
        error: z.string(),
        errorRaw: z.string(),
      }),
    )
    .readonly(),
  next: z.string().optional(),
})

// ---- chaos, only under `breakfall demo` ----

export const CHAOS_TARGETS = ['daemon', 'runner', 'move-runner'] as const
export type ChaosTarget = (typeof CHAOS_TARGETS)[number]

/** A plan or a fault as `breakfall chaos` takes it: in one line, or as JSON. */
const plannedText = z.union([text(10_000, 'a plan'), z.record(z.string(), z.unknown())], {
  error: 'one line of text or an object, as for "breakfall chaos --plan"',
})

export const chaosPlanSchema = body({ plan: plannedText })
export const chaosNextSchema = body({ fault: plannedText })
export const chaosKillSchema = body({ what: oneOf(CHAOS_TARGETS) })

export const chaosSchema = record({
  plan: z.record(z.string(), z.unknown()),
  waiting: z.int().describe('faults for the next answers that did not come yet'),
  injections: z
    .array(
      record({
        at: time,
        request: z.int(),
        attempt: z.int(),
        fault: record({ kind: z.string() }),
        outcome: z.enum(['injected', 'missed']),
        bytes: z.int(),
        events: z.int(),
      }),
    )
    .readonly()
    .describe('the last 200, oldest first'),
})
export type ChaosView = z.infer<typeof chaosSchema>
