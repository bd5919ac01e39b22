/**
 * A classified failure. One class for all: a new failure is a new row of the table.
 * Identity is `category` (`isFault(e) && e.category === …`), never `instanceof` across packages, never message text.
 */
import { describeCause, isObject, read, RAW_CHARS_MAX } from './cause.ts'
import { type Facts, friendly } from './messages.ts'
import { redactBounded } from './redact.ts'
import {
  BOUNDARIES,
  type Boundary,
  FAULT_CLASSES,
  type FaultCategory,
  type FaultClass,
  FAULTS,
  isFaultCategory,
  NEXT_STEPS,
  type NextStep,
} from './table.ts'

export const SIDE_EFFECTS = ['none', 'completed', 'unknown'] as const
export type SideEffects = (typeof SIDE_EFFECTS)[number]

/** What was recognised in the evidence. `cause` outranks `consequence` outranks `hint`. */
export type Diagnostic = {
  readonly id: string
  readonly rank: 'cause' | 'consequence' | 'hint'
  readonly message: string
  readonly advice: string
  readonly retry: string
  readonly evidence: readonly string[]
  readonly count: number
}

/** Which turn, call, box … it belongs to. */
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
  readonly error: string
  readonly errorRaw: string
  readonly next: NextStep
  readonly retry?: { readonly attempt: number; readonly max: number; readonly nextAt: string | null } | undefined
  readonly sideEffects: SideEffects
  readonly diagnostics: readonly Diagnostic[]
  readonly stopped?: string | undefined
  /** Set where the other side said how long to wait. */
  readonly retryAfterMs?: number | undefined
  /** HTTP status that the other side answered, where it did. */
  readonly status?: number | undefined
  /** Category-specific: why a command cannot be run. */
  readonly reason?: string | undefined
  /** Category-specific: which fields of a request are wrong. */
  readonly errors?: readonly FieldError[] | undefined
  readonly at: string
}

export type FieldError = { readonly field: string; readonly expected: string; readonly got: string }

export type FaultInit = FaultIds & {
  /** Overrides the category's sentence. */
  readonly error?: string | undefined
  /** What the category's sentence may mention. */
  readonly facts?: Facts | undefined
  /** Overrides the text of the cause chain. */
  readonly errorRaw?: string | undefined
  readonly cause?: unknown
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
  readonly at?: string | undefined
}

export class Fault extends Error {
  override readonly name = 'Fault'
  readonly report: FaultReport

  constructor(category: FaultCategory, init: FaultInit = {}) {
    const report = reportOf(category, init)
    super(report.error, init.cause === undefined ? undefined : { cause: init.cause })
    this.report = report
  }

  get category(): FaultCategory {
    return this.report.category
  }

  get class(): FaultClass {
    return this.report.class
  }

  get error(): string {
    return this.report.error
  }

  get errorRaw(): string {
    return this.report.errorRaw
  }

  /** The same fault with more known about it. The cause stays. */
  with(more: Omit<FaultInit, 'cause' | 'facts'>): Fault {
    const { report } = this
    return new Fault(report.category, { ...report, ...definedOnly(more), cause: this.cause })
  }

  toJSON(): FaultReport {
    return this.report
  }
}

/** True for a Fault of any copy of this package. */
export function isFault(value: unknown): value is Fault {
  return isObject(value) && read(value, 'name') === 'Fault' && isFaultReport(read(value, 'report'))
}

export function isFaultReport(value: unknown): value is FaultReport {
  return isObject(value) && isFaultCategory(read(value, 'category')) && typeof read(value, 'error') === 'string'
}

/**
 * A Fault from a report that came over a wire, perhaps from a newer version: an unknown category becomes `other`,
 * keeping its class, so that the decision is still right.
 */
export function faultFrom(value: unknown): Fault {
  if (isFault(value)) return value
  if (!isObject(value)) return new Fault('other', { cause: value })
  const category = read(value, 'category')
  const known = isFaultCategory(category)
  const init: FaultInit = {
    ...(value as FaultReport),
    errorRaw: typeof read(value, 'errorRaw') === 'string' ? (read(value, 'errorRaw') as string) : describeCause(value),
  }
  const fault = new Fault(known ? category : 'other', init)
  if (known) return fault
  const foreign = oneOf(FAULT_CLASSES, read(value, 'class'))
  if (foreign === undefined) return fault
  Object.assign(fault.report, { class: foreign, next: oneOf(NEXT_STEPS, read(value, 'next')) ?? nextByClass(foreign) })
  return fault
}

// ---- details, in the order they are used above ----

const ERROR_CHARS_MAX = 1_000

function reportOf(category: FaultCategory, init: FaultInit): FaultReport {
  const row = FAULTS[category]
  const raw = init.errorRaw ?? (init.cause === undefined ? '' : describeCause(init.cause))
  const error = redactBounded(init.error ?? friendly(category, init.facts), ERROR_CHARS_MAX)
  return definedOnly({
    category,
    class: row.class,
    boundary: oneOf(BOUNDARIES, init.boundary) ?? row.boundary,
    phase: init.phase,
    error,
    errorRaw: raw === '' ? error : redactBounded(raw, RAW_CHARS_MAX),
    next: oneOf(NEXT_STEPS, init.next) ?? row.next,
    retry: init.retry,
    sideEffects: oneOf(SIDE_EFFECTS, init.sideEffects) ?? (category === 'exec_outcome_unknown' ? 'unknown' : 'none'),
    diagnostics: (init.diagnostics ?? []).map(cleaned),
    stopped: init.stopped,
    retryAfterMs: init.retryAfterMs,
    status: init.status,
    reason: init.reason,
    errors: init.errors,
    turnId: init.turnId,
    stepId: init.stepId,
    callId: init.callId,
    execId: init.execId,
    boxId: init.boxId,
    boxState: init.boxState,
    requestId: init.requestId,
    at: init.at ?? new Date().toISOString(),
  }) as FaultReport
}

const DIAGNOSTIC_CHARS_MAX = 600

function cleaned(diagnostic: Diagnostic): Diagnostic {
  const clean = (text: string): string => redactBounded(text, DIAGNOSTIC_CHARS_MAX)
  return {
    ...diagnostic,
    message: clean(diagnostic.message),
    advice: clean(diagnostic.advice),
    evidence: diagnostic.evidence.map(clean),
  }
}

function nextByClass(faultClass: FaultClass): NextStep {
  return faultClass === 'transient' || faultClass === 'throttled' ? 'retry' : 'never'
}

function oneOf<T extends string>(list: readonly T[], value: unknown): T | undefined {
  return list.find((entry) => entry === value)
}

function definedOnly<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as T
}
