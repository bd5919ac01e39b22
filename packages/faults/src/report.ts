/**
 * The plain value of a fault, for journals, events and responses, and how it is built from what is known.
 *
 * I1  No field of a report holds a secret of a known shape, and each is bounded.
 * I2  A report can be built from anything, including a hostile or newer peer's JSON: values of the wrong type are dropped.
 */
import { describeCause, RAW_CHARS_MAX } from './cause.ts'
import { type FaultMessage, joinMessage, type MessageFacts } from './message.ts'
import { type Facts, messageFor } from './messages.ts'
import { definedOnly, isReadable, oneOf, read } from './read.ts'
import { redact, redactBounded } from './redact.ts'
import { type ServeFacts, serveFactsIn } from './serve.ts'
import {
  BOUNDARIES,
  type Boundary,
  FAULT_CLASSES,
  type FaultCategory,
  type FaultClass,
  FAULTS,
  NEXT_STEPS,
  type NextStep,
} from './categories.ts'

export const SIDE_EFFECTS = ['none', 'completed', 'unknown'] as const
export type SideEffects = (typeof SIDE_EFFECTS)[number]

/** What was recognised in the evidence. A `cause` outranks a `consequence`, which outranks a `hint`. */
export type Diagnostic = {
  readonly id: string
  readonly rank: 'cause' | 'consequence' | 'hint'
  readonly message: string
  readonly advice: string
  readonly retry: string
  readonly evidence: readonly string[]
  readonly count: number
}

/** The turn, call, box … that it belongs to. */
export type FaultIds = {
  readonly turnId?: string | undefined
  readonly stepId?: string | undefined
  readonly callId?: string | undefined
  readonly execId?: string | undefined
  readonly boxId?: string | undefined
  readonly boxState?: string | undefined
  readonly requestId?: string | undefined
}

export type FaultReport = FaultIds & {
  readonly category: FaultCategory
  readonly class: FaultClass
  readonly boundary: Boundary
  readonly phase?: string | undefined
  /** For people: the joined message. */
  readonly error: string
  /** The facts that `error` is joined from. Absent if there is only one: then `error` is what happened. */
  readonly message?: FaultMessage | undefined
  readonly errorRaw: string
  readonly next: NextStep
  readonly retry?: { readonly attempt: number; readonly max: number; readonly nextAt: string | null } | undefined
  readonly sideEffects: SideEffects
  readonly diagnostics: readonly Diagnostic[]
  readonly stopped?: string | undefined
  /** Set if the other side said how long to wait. */
  readonly retryAfterMs?: number | undefined
  /** HTTP status of the other side's response, if there was one. */
  readonly status?: number | undefined
  /** Category-specific: why a command cannot be run. */
  readonly reason?: string | undefined
  /** Category-specific: which fields of a request are wrong. */
  readonly errors?: readonly FieldError[] | undefined
  /** The model server that Breakfall runs, if the fault is about it. */
  readonly serve?: ServeFacts | undefined
  /** Category-specific: the highest epoch that the runner has seen for this box. */
  readonly epochSeen?: number | undefined
  /** Category-specific: the files that a restore would overwrite. */
  readonly paths?: readonly string[] | undefined
  readonly at: string
}

export type FieldError = { readonly field: string; readonly expected: string; readonly got: string }

export type FaultInit = FaultIds & {
  /** Replaces the category's message with one fact: what happened. */
  readonly error?: string | undefined
  /** Replaces single facts of the message. An empty text removes one. */
  readonly message?: MessageFacts | undefined
  /** What the category's message can mention. */
  readonly facts?: Facts | undefined
  /** Overrides the text of the cause chain. */
  readonly errorRaw?: string | undefined
  readonly cause?: unknown
  /** Overrides the row's class, for a category that only a newer peer knows. */
  readonly class?: FaultClass | undefined
  readonly boundary?: Boundary | undefined
  readonly phase?: string | undefined
  readonly next?: NextStep | undefined
  readonly retry?: FaultReport['retry']
  readonly sideEffects?: SideEffects | undefined
  readonly diagnostics?: readonly Diagnostic[] | undefined
  readonly stopped?: string | undefined
  readonly retryAfterMs?: number | undefined
  readonly status?: number | undefined
  readonly reason?: string | undefined
  readonly errors?: readonly FieldError[] | undefined
  readonly serve?: ServeFacts | undefined
  readonly epochSeen?: number | undefined
  readonly paths?: readonly string[] | undefined
  readonly at?: string | undefined
}

/** What can be added to a fault later. */
export type FaultMore = Omit<FaultInit, 'cause' | 'facts'>

export function reportOf(category: FaultCategory, init: FaultInit): FaultReport {
  const row = FAULTS[category]
  const raw = typeof init.errorRaw === 'string' ? init.errorRaw : describedCause(init.cause)
  const message = messageOf(category, init)
  const error = redactBounded(joinMessage(message), ERROR_CHARS_MAX)
  return definedOnly({
    category,
    class: oneOf(FAULT_CLASSES, init.class) ?? row.class,
    boundary: oneOf(BOUNDARIES, init.boundary) ?? row.boundary,
    phase: name(init.phase),
    error,
    message: message.action === undefined && message.advice === undefined ? undefined : message,
    errorRaw: raw === '' ? error : redactBounded(raw, RAW_CHARS_MAX),
    next: oneOf(NEXT_STEPS, init.next) ?? row.next,
    retry: retryOf(init.retry),
    sideEffects: oneOf(SIDE_EFFECTS, init.sideEffects) ?? (category === 'exec_outcome_unknown' ? 'unknown' : 'none'),
    diagnostics: entries(init.diagnostics).map(diagnosticOf),
    stopped: name(init.stopped),
    retryAfterMs: count(init.retryAfterMs),
    status: count(init.status),
    reason: name(init.reason),
    errors: init.errors === undefined ? undefined : entries(init.errors).map(fieldErrorOf),
    serve: serveFactsIn(init.serve),
    epochSeen: count(init.epochSeen),
    paths: init.paths === undefined ? undefined : list(init.paths).map(text),
    turnId: name(init.turnId),
    stepId: name(init.stepId),
    callId: name(init.callId),
    execId: name(init.execId),
    boxId: name(init.boxId),
    boxState: name(init.boxState),
    requestId: name(init.requestId),
    at: name(init.at) ?? new Date().toISOString(),
  })
}

/**
 * The fields of a report, read from any object. Their types are claims; `reportOf` checks each. The text comes from `message` if
 * `error` was joined from it, else from `error`: a peer may know only one of them.
 */
export function initFrom(value: object): FaultInit {
  const init = definedOnly(Object.fromEntries(REPORT_KEYS.map((key) => [key, read(value, key)]))) as FaultInit
  const { error, message, ...rest } = init
  const facts = factsIn(message)
  const isWhole = facts.happened !== undefined && joinMessage({ ...facts, happened: facts.happened }) === error
  return definedOnly({ ...rest, ...(isWhole ? { message: facts } : { error }) })
}

/** What is known, with more known about it. New text replaces the old, fact by fact if it comes as facts. */
export function merged(known: FaultInit, more: FaultInit): FaultInit {
  if (more.error !== undefined) return { ...known, message: undefined, ...definedOnly(more) }
  return { ...known, ...definedOnly({ ...more, message: { ...known.message, ...definedOnly(more.message ?? {}) } }) }
}

// ---- details, in the order they are used above ----

/** Total over the report: a new field does not compile until it is listed here and read back. */
const REPORT_FIELDS = {
  class: true,
  boundary: true,
  phase: true,
  error: true,
  message: true,
  errorRaw: true,
  next: true,
  retry: true,
  sideEffects: true,
  diagnostics: true,
  stopped: true,
  retryAfterMs: true,
  status: true,
  reason: true,
  errors: true,
  serve: true,
  epochSeen: true,
  paths: true,
  at: true,
  turnId: true,
  stepId: true,
  callId: true,
  execId: true,
  boxId: true,
  boxState: true,
  requestId: true,
} as const satisfies Record<Exclude<keyof FaultReport, 'category'>, true>
const REPORT_KEYS = Object.keys(REPORT_FIELDS)

const ERROR_CHARS_MAX = 1_000
const TEXT_CHARS_MAX = 600 // of a diagnostic, a field error
const NAME_CHARS_MAX = 200 // of an id, a phase, a reason
const ENTRIES_MAX = 64 // of each list in a report

function messageOf(category: FaultCategory, init: FaultInit): FaultMessage {
  const base = typeof init.error === 'string' ? { happened: init.error } : messageFor(category, init.facts)
  const { happened = base.happened, action, advice } = { ...base, ...factsIn(init.message) }
  return definedOnly({ happened: redactBounded(happened, ERROR_CHARS_MAX), action: some(action), advice: some(advice) })
}

/** The facts that are there, and are text. */
function factsIn(message: unknown): MessageFacts {
  if (!isReadable(message)) return {}
  return definedOnly({
    happened: words(read(message, 'happened')),
    action: words(read(message, 'action')),
    advice: words(read(message, 'advice')),
  })
}

const words = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const some = (fact: string | undefined): string | undefined => (fact ? text(fact) : undefined)

const describedCause = (cause: unknown): string => (cause === undefined ? '' : describeCause(cause))

function retryOf(retry: unknown): FaultReport['retry'] {
  if (!isReadable(retry)) return undefined
  const attempt = count(read(retry, 'attempt'))
  const max = count(read(retry, 'max'))
  return attempt === undefined || max === undefined
    ? undefined
    : { attempt, max, nextAt: name(read(retry, 'nextAt')) ?? null }
}

function diagnosticOf(diagnostic: object): Diagnostic {
  return {
    id: name(read(diagnostic, 'id')) ?? 'unnamed',
    rank: oneOf(['cause', 'consequence', 'hint'], read(diagnostic, 'rank')) ?? 'hint',
    message: text(read(diagnostic, 'message')),
    advice: text(read(diagnostic, 'advice')),
    retry: text(read(diagnostic, 'retry')),
    evidence: list(read(diagnostic, 'evidence')).map(text),
    count: count(read(diagnostic, 'count')) ?? 1,
  }
}

/** `got` is redacted together with its field's name: the value of `env.API_KEY` is a secret, regardless of its shape. */
function fieldErrorOf(error: object): FieldError {
  const field = text(read(error, 'field'))
  const got = text(read(error, 'got'))
  const redacted = redact(`${field}=${got}`)
  return {
    field,
    expected: text(read(error, 'expected')),
    got: redacted.startsWith(`${field}=`) ? redacted.slice(field.length + 1) : '[redacted]',
  }
}

function list(value: unknown): readonly unknown[] {
  try {
    return Array.isArray(value) ? value.slice(0, ENTRIES_MAX) : []
  } catch {
    return [] // I2: a proxy or a getter that throws
  }
}

const entries = (value: unknown): readonly object[] => list(value).filter(isReadable)
const text = (value: unknown): string => (typeof value === 'string' ? redactBounded(value, TEXT_CHARS_MAX) : '')
const name = (value: unknown): string | undefined =>
  typeof value === 'string' ? redactBounded(value, NAME_CHARS_MAX) : undefined
const count = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.abs(value) : undefined // JSON has no -0
