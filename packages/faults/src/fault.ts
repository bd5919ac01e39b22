/**
 * A classified failure. One class for all: a new kind of failure is a new row in the table.
 * Identity is `category` (`isFault(e) && e.category === …`), never `instanceof` across packages, never message text.
 */
import { describeCause, isObject, read } from './cause.ts'
import { type FaultInit, type FaultReport, initFrom, merged, oneOf, reportOf } from './report.ts'
import {
  FAULT_CLASSES,
  type FaultCategory,
  type FaultClass,
  isFaultCategory,
  NEXT_STEPS,
  type NextStep,
} from './table.ts'

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

  /** The same fault with more known about it. Keeps the cause. */
  with(more: Omit<FaultInit, 'cause' | 'facts'>): Fault {
    return extended(this, more, this.cause)
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

/** The same fault with more known about it, also for a Fault of another copy of this package. */
export function extended(fault: Fault, more: Omit<FaultInit, 'cause' | 'facts'>, cause: unknown): Fault {
  const { report } = fault
  return new Fault(report.category, { ...merged(initFrom(report), more), cause })
}

/**
 * A Fault from a report that came over a wire, perhaps from a newer version. An unknown category becomes `other` and keeps
 * its class, and its name in the raw error: the decision is still right, and nothing is lost.
 */
export function faultFrom(value: unknown): Fault {
  if (isFault(value)) return value
  if (!isObject(value)) return new Fault('other', { cause: value })
  const category = read(value, 'category')
  const init = initFrom(value)
  const raw = typeof init.errorRaw === 'string' ? init.errorRaw : describeCause(value)
  // We know the class of a known category better than the sender; `other` may stand for a category that only its sender knew.
  if (category === 'other') return new Fault(category, { ...init, errorRaw: raw })
  if (isFaultCategory(category)) return new Fault(category, { ...init, class: undefined, errorRaw: raw })
  const foreign = oneOf(FAULT_CLASSES, init.class)
  return new Fault('other', {
    ...init,
    errorRaw: typeof category === 'string' ? `${category}: ${raw}` : raw,
    next: oneOf(NEXT_STEPS, init.next) ?? (foreign === undefined ? undefined : nextByClass(foreign)),
  })
}

// ---- details ----

function nextByClass(faultClass: FaultClass): NextStep {
  return faultClass === 'transient' || faultClass === 'throttled' ? 'retry' : 'never'
}
