/**
 * Calls something until it succeeds or `decide` says to stop. The one retry loop in the system: whatever repeats a call
 * after a failure does it here. (A model's answer climbs a ladder instead, and a supervised child has a life cycle; both
 * ask the same `decide`.)
 *
 * I1  `decide` alone says whether and when the next call is made.
 * I2  Only Faults are retried. Anything else is a mistake in the program and is rethrown.
 * I3  Nothing is called after the signal has aborted.
 */
import { classify } from './classify.ts'
import { decide, type Decision } from './decide.ts'
import { type Fault, isFault } from './fault.ts'
import type { RetryPolicy } from './policy.ts'
import type { Situation } from './situation.ts'
import { sleep } from './sleep.ts'

export type RetryOptions = {
  readonly policy: RetryPolicy
  readonly signal?: AbortSignal | undefined
  /** Turns what was thrown into a Fault. Default: a Fault is used unchanged, anything else is rethrown. */
  readonly faultOf?: ((thrown: unknown) => Fault) | undefined
  /** A failure from before the first call, such as a broken stream that is to be reconnected. Counts as the first. */
  readonly failed?: Fault | undefined
  /** True if the failed call had got somewhere: the count starts over with this failure. */
  readonly madeProgress?: ((fault: Fault) => boolean) | undefined
  /** What the boundary knows. Default: the situation of a call to a fixed address. */
  readonly situation?: ((failures: Failures) => Situation) | undefined
  /** Before the wait: the place to report or journal the retry. */
  readonly onRetry?: ((retry: Retry) => void | Promise<void>) | undefined
  /** After the wait: the place to look up an address again. */
  readonly beforeRetry?: ((fault: Fault) => void | Promise<void>) | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  readonly sleep?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined
}

/** Failures in a row. */
export type Failures = {
  /** This one included. */
  readonly attempt: number
  /** Milliseconds since the first of them. */
  readonly awayMs: number
  readonly dice: number
}

export type Retry = { readonly fault: Fault; readonly attempt: number; readonly delayMs: number }

export type Final = Extract<Decision, { action: 'park' | 'stop' }>

export type RetryOutcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly fault: Fault; readonly decision: Final }

/** Throws the last fault, with the reason for stopping in `stopped`. */
export async function retrying<T>(act: (attempt: number) => Promise<T>, options: RetryOptions): Promise<T> {
  const outcome = await retryOutcome(act, options)
  if (outcome.ok) return outcome.value
  throw outcome.fault.with({ stopped: outcome.decision.because })
}

/** For callers that can park: the final decision is a value. */
export async function retryOutcome<T>(
  act: (attempt: number) => Promise<T>,
  options: RetryOptions,
): Promise<RetryOutcome<T>> {
  const { policy, signal, situation = callSituation, now = Date.now, dice = Math.random } = options
  const pause = options.sleep ?? sleep
  let calls = 0
  let firstFailedAt = 0
  let last: CallOutcome<T> =
    options.failed === undefined ? await callOnce(act, ++calls, options) : { ok: false, fault: options.failed }
  let attempt = 0
  while (!last.ok) {
    const { fault } = last
    attempt = calls > 0 && options.madeProgress?.(fault) === true ? 1 : attempt + 1
    if (attempt === 1) firstFailedAt = now()
    const failures = { attempt, awayMs: now() - firstFailedAt, dice: dice() }
    const decision = decide(fault.report, situation(failures), policy, now()) // I1
    if (decision.action === 'stop' || decision.action === 'park') return { ok: false, fault, decision }
    await options.onRetry?.({ fault, attempt, delayMs: decision.delayMs })
    await pause(decision.delayMs, signal)
    if (signal?.aborted !== true) await options.beforeRetry?.(fault)
    if (signal?.aborted === true) return cancelled(fault, signal) // I3
    last = await callOnce(act, ++calls, options)
  }
  return last
}

// ---- details, in the order they are used above ----

type CallOutcome<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: Fault }

const callSituation = (failures: Failures): Situation => ({ at: 'call', ...failures })

async function callOnce<T>(
  act: (attempt: number) => Promise<T>,
  calls: number,
  { faultOf, signal }: RetryOptions,
): Promise<CallOutcome<T>> {
  try {
    return { ok: true, value: await act(calls) }
  } catch (thrown) {
    if (faultOf !== undefined) return { ok: false, fault: faultOf(thrown) }
    if (isFault(thrown)) return { ok: false, fault: thrown }
    if (signal?.aborted === true) return { ok: false, fault: classify(thrown, { boundary: 'client', signal }) }
    throw thrown // I2
  }
}

function cancelled(fault: Fault, signal: AbortSignal): RetryOutcome<never> {
  const decision = { action: 'stop', because: 'cancelled' } as const
  return { ok: false, fault: classify(undefined, { boundary: fault.report.boundary, signal }), decision }
}
