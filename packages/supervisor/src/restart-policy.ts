/**
 * Whether and when a failed child is started again. Pure but for its two counters; the deciding itself is `decide`'s.
 *
 * I1  Failures in a row count from the last run that stayed up (`stableMs` ready); they set the backoff.
 * I2  Failures within `windowMs` set the end: four crashes in a month are no crash loop.
 * I3  What cannot go better by itself is not tried: a verdict of `never`, and `after_change` when it never got ready. A server
 *     that ran out of memory over one request has proven that it can start, so it is started again, within I2.
 */
import { backoffMs, decide, LIMITS, POLICY_DEFAULTS } from '@breakfall/faults'
import { type JudgedReport, faultOf, type RestartPlan } from './report.ts'
import type { Limits } from './spec.ts'

export type GiveUpReason = 'never_retry' | 'needs_change' | 'crash_loop'

export class RestartPolicy {
  readonly #limits: Limits
  #inARow = 0
  #failedAt: number[] = []

  constructor(limits: Limits) {
    this.#limits = limits
  }

  get inARow(): number {
    return this.#inARow
  }

  /** `readyForMs`: how long the failed run had been ready; undefined if it never was. */
  plan(
    report: JudgedReport,
    situation: {
      readonly readyForMs: number | undefined
      readonly now: number
      readonly dice: number
      readonly override: boolean | undefined
    },
  ): RestartPlan {
    const { now, dice, readyForMs } = situation
    if (readyForMs !== undefined && readyForMs >= this.#limits.stableMs) this.#inARow = 0 // I1
    this.#inARow += 1
    this.#failedAt = [...this.#failedAt.filter((at) => now - at < this.#limits.windowMs), now]
    const counted = { attempt: this.#inARow, windowCount: this.#failedAt.length }
    const hopeless = hopelessReason(report, readyForMs !== undefined, situation.override)
    const { report: fault } = faultOf(report)
    const decision = decide(
      hopeless === undefined ? { ...fault, next: 'restart' } : { ...fault, next: 'never' },
      {
        attempt: counted.attempt,
        failures: counted.windowCount, // I2
        waitedMs: 0,
        dice,
        canPark: false,
        restarts: Math.min(counted.attempt, LIMITS.restartsMax) - 1, // I1; the limit of a child is its window
      },
      { ...POLICY_DEFAULTS, backoffMs: this.#limits.backoffMs, failuresMax: this.#limits.failuresMax },
      now,
    )
    if (decision.action !== 'restart') {
      return { decision: 'give_up', delayMs: null, ...counted, because: hopeless ?? 'crash_loop' }
    }
    const delayMs = backoffMs(counted.attempt, { backoffMs: this.#limits.backoffMs }, dice)
    return { decision: 'restart', delayMs, ...counted, because: decision.because }
  }

  /** Somebody asked for a start: what was is forgiven. */
  reset(): void {
    this.#inARow = 0
    this.#failedAt = []
  }
}

// ---- details ----

/** I3 */
function hopelessReason(
  report: JudgedReport,
  wasReady: boolean,
  override: boolean | undefined,
): 'never_retry' | 'needs_change' | undefined {
  if (override !== undefined) return override ? undefined : 'never_retry'
  const [head] = report.diagnoses
  if (head?.rank !== 'cause') return undefined
  if (head.retry === 'never') return 'never_retry'
  return head.retry === 'after_change' && !wasReady ? 'needs_change' : undefined
}
