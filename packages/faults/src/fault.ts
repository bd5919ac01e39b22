/**
 * A classified failure. One class for all: a new kind of failure is a new row in the table.
 * Identity is `category` (`isFault(e) && e.category === …`), never `instanceof` across packages, never message text.
 */
import { describeCause } from './cause.ts'
import { isReadable, oneOf, read } from './read.ts'
import { type FaultInit, type FaultMore, initFrom, merged, reportOf } from './report.ts'
import { isFault, nextByClass, ReportedFault } from './reported-fault.ts'
import { FAULT_CLASSES, type FaultCategory, isFaultCategory, NEXT_STEPS } from './categories.ts'

export class Fault extends ReportedFault {
  constructor(category: FaultCategory, init: FaultInit = {}) {
    super(reportOf(category, init), init.cause)
  }

  override with(more: FaultMore): Fault {
    return extended(this, more, this.cause)
  }
}

/** The same fault with more known about it, also for a Fault of another copy of this package. */
export function extended(fault: Fault, more: FaultMore, cause: unknown): Fault {
  const { report } = fault
  return new Fault(report.category, { ...merged(initFrom(report), more), cause })
}

/**
 * A Fault from a report that came over a wire, perhaps from a newer version. An unknown category becomes `other` and keeps
 * its class, and its name in the raw error: the decision is still right, and nothing is lost.
 */
export function faultFrom(value: unknown): Fault {
  if (isFault(value)) return value
  if (!isReadable(value)) return new Fault('other', { cause: value })
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
