/**
 * For a program that calls one of our services and passes on what it reported: faults as values and retries by `decideCall`, without
 * the messages, the classifier and the redaction that only a service needs. A third of the size of the full entry.
 */
import { decideCall, stop } from './decide-call.ts'
import { isReadable, read } from './read.ts'
import type { RetryPolicy } from './policy.ts'
import { isFault, type ReportedFault, reportedFault } from './reported-fault.ts'
import { type LoopOptions, retryLoop, valueOf } from './retry-loop.ts'
import type { Boundary, FaultCategory } from './categories.ts'

export { POLICY_DEFAULTS, type RetryPolicy } from './policy.ts'
export {
  faultInProblem,
  faultInReport,
  isFault,
  ReportedFault,
  reportedFault,
  type ReportText,
} from './reported-fault.ts'
export type { LoopOptions } from './retry-loop.ts'
export type { FaultReport } from './report.ts'
export { sleep } from './sleep.ts'
export type { FaultCategory } from './categories.ts'

/** Repeats a call to a fixed address until it succeeds or `decide` says to stop. Throws the last fault. */
export async function retryingCall<T>(
  act: () => Promise<T>,
  options: LoopOptions & { readonly policy: RetryPolicy },
): Promise<T> {
  const outcome = await retryLoop(act, options, {
    decide: ({ report }, failures) =>
      report.class === 'cancelled'
        ? stop('cancelled')
        : decideCall(report, { at: 'call', ...failures }, options.policy),
    ended: endedFault,
  })
  return valueOf(outcome)
}

/** The fault of a call that its own signal ended: the limit that did it, a deadline, or a cancel. */
export function endedFault(thrown: unknown, boundary: Boundary, { reason }: AbortSignal): ReportedFault {
  if (isFault(reason)) return reason
  const isTimeout = isReadable(reason) && read(reason, 'name') === 'TimeoutError'
  const category: FaultCategory = isTimeout ? 'deadline_exceeded' : 'cancelled'
  return reportedFault(
    category,
    { error: isTimeout ? 'The deadline has passed.' : 'Cancelled.', errorRaw: String(reason), boundary },
    thrown ?? reason,
  )
}
