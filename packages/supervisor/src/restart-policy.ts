/**
 * Whether and when a failed child is started again. Pure but for its two counters; the deciding itself is `decide`'s.
 *
 * I1  Failures in a row count from the last run that stayed up (`stableMs` ready); they set the backoff.
 * I2  Failures within `windowMs` set the end: four crashes in a month are no crash loop.
 * I3  What cannot go better by itself is not tried: a verdict of `never`, and `after_change` when it never got ready. A server
 *     that ran out of memory over one request has proven that it can start, so it is started again, within I2.
 */
import { decide, POLICY_DEFAULTS, type ProcessSituation, type Reason } from '@breakfall/faults'
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
    const decision = decide(
      faultOf(report).report,
      {
        at: 'process',
        failuresInARow: counted.attempt, // I1
        failuresInWindow: counted.windowCount, // I2
        wasReady: readyForMs !== undefined,
        verdict: verdictOf(report, situation.override), // I3
        dice,
      },
      { ...POLICY_DEFAULTS, backoffMs: this.#limits.backoffMs, failuresMax: this.#limits.failuresMax },
      now,
    )
    return decision.action === 'restart'
      ? { decision: 'restart', delayMs: decision.delayMs, ...counted, because: decision.because }
      : { decision: 'give_up', delayMs: null, ...counted, because: giveUpReason(decision.because) }
  }

  /** Somebody asked for a start: what was is forgiven. */
  reset(): void {
    this.#inARow = 0
    this.#failedAt = []
  }
}

// ---- details ----

/** The caller's word counts first, then the cause that was recognised. */
function verdictOf(report: JudgedReport, override: boolean | undefined): ProcessSituation['verdict'] {
  if (override !== undefined) return override ? 'worth_it' : 'never'
  const [head] = report.diagnoses
  if (head?.rank !== 'cause') return 'worth_it'
  return head.retry === 'never' || head.retry === 'after_change' ? head.retry : 'worth_it'
}

function giveUpReason(because: Reason): GiveUpReason {
  if (because === 'not_retryable') return 'never_retry'
  return because === 'needs_action' ? 'needs_change' : 'crash_loop'
}
