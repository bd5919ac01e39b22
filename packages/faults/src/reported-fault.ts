/**
 * A fault as its report says it: an error that holds a report. `Fault` builds its report from the table and the messages; this class
 * takes a finished report, so a program that only passes on what a service reported needs neither messages nor redaction.
 */
import { joinMessage } from './message.ts'
import { definedOnly, isReadable, oneOf, read } from './read.ts'
import type { FaultMore, FaultReport } from './report.ts'
import {
  BOUNDARIES,
  FAULT_CLASSES,
  type FaultCategory,
  type FaultClass,
  FAULTS,
  isFaultCategory,
  NEXT_STEPS,
  type NextStep,
} from './categories.ts'

export class ReportedFault extends Error {
  override readonly name = 'Fault'
  readonly report: FaultReport

  constructor(report: FaultReport, cause?: unknown) {
    super(report.error, cause === undefined ? undefined : { cause })
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

  /** The same fault with more known about it. Keeps the cause. */
  with({ message: facts, ...more }: FaultMore): ReportedFault {
    const report: FaultReport = { ...this.report, ...definedOnly(more) }
    if (more.error !== undefined) return new ReportedFault({ ...report, message: undefined }, this.cause)
    const message = { happened: report.error, ...report.message, ...definedOnly(facts ?? {}) }
    const text = facts === undefined ? {} : { message, error: joinMessage(message) }
    return new ReportedFault({ ...report, ...text }, this.cause)
  }

  toJSON(): FaultReport {
    return this.report
  }
}

/** True for a Fault of any copy of this package. */
export function isFault(value: unknown): value is ReportedFault {
  return isReadable(value) && read(value, 'name') === 'Fault' && isFaultReport(read(value, 'report'))
}

export function isFaultReport(value: unknown): value is FaultReport {
  return isReadable(value) && isFaultCategory(read(value, 'category')) && typeof read(value, 'error') === 'string'
}

/** What a caller says about a failure itself. The rest comes from the table. */
export type ReportText = Pick<FaultReport, 'error'> & {
  readonly [K in Exclude<keyof FaultReport, 'category' | 'error'>]?: FaultReport[K] | undefined
}

export function reportedFault(category: FaultCategory, text: ReportText, cause?: unknown): ReportedFault {
  const { title: _title, http: _http, ...row } = FAULTS[category]
  const report: FaultReport = {
    ...row,
    errorRaw: text.error,
    sideEffects: 'none',
    diagnostics: [],
    at: new Date().toISOString(),
    ...definedOnly(text),
    category,
  }
  return new ReportedFault(report, cause)
}

/**
 * The fault in a problem document of one of our services, or undefined for any other body. A category that only a newer service knows
 * becomes `other` and keeps its class, and its name in the raw error.
 */
export function faultInProblem(body: unknown): ReportedFault | undefined {
  if (!isReadable(body)) return undefined
  const { type, title: _title, detail: _detail, ...report } = Object.fromEntries(Object.entries(body))
  return typeof type === 'string' && type.startsWith(PROBLEM_TYPE_PREFIX) ? faultInReport(report) : undefined
}

/** The same for a bare report, as a WebSocket carries it. */
export function faultInReport(report: unknown): ReportedFault | undefined {
  if (!isReadable(report)) return undefined
  const { category, ...fields } = Object.fromEntries(Object.entries(report))
  const { error, errorRaw } = fields
  if (typeof category !== 'string' || typeof error !== 'string') return undefined
  const raw = typeof errorRaw === 'string' ? errorRaw : error
  const foreign = oneOf(FAULT_CLASSES, fields['class'])
  const next = oneOf(NEXT_STEPS, fields['next'])
  const text: ReportText = {
    ...fields,
    error,
    errorRaw: raw,
    class: foreign,
    boundary: oneOf(BOUNDARIES, fields['boundary']),
    diagnostics: Array.isArray(fields['diagnostics']) ? fields['diagnostics'] : [],
    next,
  }
  if (isFaultCategory(category))
    return reportedFault(category, { ...text, class: category === 'other' ? foreign : undefined })
  const nextStep = next ?? (foreign === undefined ? undefined : nextByClass(foreign))
  return reportedFault('other', { ...text, errorRaw: `${category}: ${raw}`, next: nextStep })
}

export const PROBLEM_TYPE_PREFIX = 'urn:breakfall:fault:'

/** What to do about a category that only a newer version knows. */
export function nextByClass(faultClass: FaultClass): NextStep {
  return faultClass === 'transient' || faultClass === 'throttled' ? 'retry' : 'never'
}
