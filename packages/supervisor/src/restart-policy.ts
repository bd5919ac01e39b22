/**
 * Counts the failures of a child and asks `decide` whether and when it restarts.
 *
 * I1  Failures in a row count from the last stable run (ready for `stableMs`). They set the backoff.
 * I2  Failures within `windowMs` set the limit: four crashes in a month are not a crash loop.
 * I3  A start that cannot succeed is not repeated: a verdict of `never`, or `after_change` for a child that never became ready.
 *     A server that ran out of memory during a request has proven that it can start, so it restarts, within I2.
 */
import { decide, POLICY_DEFAULTS, type ProcessSituation, type Reason } from '@breakfall/faults'
import { faultOf, type GiveUpReason, type JudgedReport, type RestartPlan } from './report.ts'
import type { Limits } from './spec.ts'

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

  /** `readyForMs`: how long the failed run was ready, or undefined if it never was. */
  plan(
    report: JudgedReport,
    situation: {
      readonly readyForMs: number | undefined
      readonly now: number
      readonly dice: number
      readonly override: boolean | undefined
    },
  ): Exclude<RestartPlan, { decision: 'none' }> {
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

  /** The caller asked for a start: earlier failures no longer count. */
  reset(): void {
    this.#inARow = 0
    this.#failedAt = []
  }

  /** The child was given up before: one more failure within the window gives it up again. */
  onProbation(now: number): void {
    this.#failedAt = Array.from({ length: this.#limits.failuresMax - 1 }, () => now)
  }
}

// ---- details ----

/** The caller's decision comes first, then the recognised cause. */
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
