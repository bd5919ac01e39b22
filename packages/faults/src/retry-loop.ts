/**
 * Calls something until it succeeds or the decision is to stop, for `retrying` and, in a client, `retryingCall`. A model's answer
 * climbs a ladder instead, a supervised child has a life cycle, and a link to an MCP server is opened again; all ask the same
 * `decide`. Not here: the shared store repeats its own statements, and a box restarts its background processes, by fixed rules.
 *
 * I1  `decide` alone says whether and when the next call is made.
 * I2  Only Faults are retried. Anything else is a mistake in the program and is rethrown.
 * I3  Nothing is called after the signal has aborted.
 */
import type { Decision } from './decision.ts'
import { isFault, type ReportedFault } from './reported-fault.ts'
import { sleep } from './sleep.ts'
import type { Boundary } from './categories.ts'

export type LoopOptions = {
  readonly signal?: AbortSignal | undefined
  /** Turns what was thrown into a Fault. Default: a Fault is used unchanged, anything else is rethrown. */
  readonly faultOf?: ((thrown: unknown) => ReportedFault) | undefined
  /** A failure from before the first call, such as a broken stream that is to be reconnected. Counts as the first. */
  readonly failed?: ReportedFault | undefined
  /** True if the failed call had got somewhere: the count starts over with this failure. */
  readonly madeProgress?: ((fault: ReportedFault) => boolean) | undefined
  /** Before the wait: the place to report or journal the retry. */
  readonly onRetry?: ((retry: Retry) => void | Promise<void>) | undefined
  /** After the wait: the place to look up an address again. */
  readonly beforeRetry?: ((fault: ReportedFault) => void | Promise<void>) | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  readonly sleep?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined
}

/** What the loop asks about a failure. */
export type LoopRules = {
  readonly decide: (fault: ReportedFault, failures: Failures, now: number) => Decision
  /** The fault of a call that its own signal ended. */
  readonly ended: (thrown: unknown, boundary: Boundary, signal: AbortSignal) => ReportedFault
}

/** Failures in a row. */
export type Failures = {
  /** This one included. */
  readonly attempt: number
  /** Milliseconds since the first of them. */
  readonly awayMs: number
  readonly dice: number
}

export type Retry = { readonly fault: ReportedFault; readonly attempt: number; readonly delayMs: number }

export type Final = Extract<Decision, { action: 'park' | 'stop' }>

export type RetryOutcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly fault: ReportedFault; readonly decision: Final }

export async function retryLoop<T>(
  act: (attempt: number) => Promise<T>,
  options: LoopOptions,
  rules: LoopRules,
): Promise<RetryOutcome<T>> {
  const { signal, now = Date.now, dice = Math.random } = options
  const pause = options.sleep ?? sleep
  let calls = 0
  let firstFailedAt = 0
  let last: CallOutcome<T> =
    options.failed === undefined ? await callOnce(act, ++calls, options, rules) : { ok: false, fault: options.failed }
  let attempt = 0
  while (!last.ok) {
    const { fault } = last
    attempt = calls > 0 && options.madeProgress?.(fault) === true ? 1 : attempt + 1
    if (attempt === 1) firstFailedAt = now()
    const decision = rules.decide(fault, { attempt, awayMs: now() - firstFailedAt, dice: dice() }, now()) // I1
    if (decision.action === 'stop' || decision.action === 'park') return { ok: false, fault, decision }
    await options.onRetry?.({ fault, attempt, delayMs: decision.delayMs })
    await pause(decision.delayMs, signal)
    if (signal?.aborted !== true) await options.beforeRetry?.(fault)
    if (signal?.aborted === true) {
      const { boundary } = fault.report
      return { ok: false, fault: rules.ended(undefined, boundary, signal), decision: CANCELLED } // I3
    }
    last = await callOnce(act, ++calls, options, rules)
  }
  return last
}

/** The value, or the last fault thrown with the reason for stopping in `stopped`. */
export function valueOf<T>(outcome: RetryOutcome<T>): T {
  if (outcome.ok) return outcome.value
  throw outcome.fault.with({ stopped: outcome.decision.because })
}

// ---- details, in the order they are used above ----

type CallOutcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: ReportedFault }

const CANCELLED = { action: 'stop', because: 'cancelled' } as const

async function callOnce<T>(
  act: (attempt: number) => Promise<T>,
  calls: number,
  { faultOf, signal }: LoopOptions,
  rules: LoopRules,
): Promise<CallOutcome<T>> {
  try {
    return { ok: true, value: await act(calls) }
  } catch (thrown) {
    if (faultOf !== undefined) return { ok: false, fault: faultOf(thrown) }
    if (isFault(thrown)) return { ok: false, fault: thrown }
    if (signal?.aborted === true) return { ok: false, fault: rules.ended(thrown, 'client', signal) }
    throw thrown // I2
  }
}
