/**
 * Keeps count over the attempts of one call and picks the next rung: continue, ask again, the next model, or the end.
 * Whether to try again at all is `decide`'s alone; the ladder only knows which rung that means here.
 *
 * I1  One budget: every failure and every wait is drawn from the one that was given in, and handed back.
 * I2  No attempt is hidden: each stands in the ledger.
 */
import {
  type AnswerSituation,
  decide,
  type Decision,
  type Fault,
  type FaultReport,
  lastWords,
  type Policy,
} from '@breakfall/faults'
import type { AttemptRecord, Budget, FailedAction } from './answer.ts'

export type LadderOptions = {
  readonly policy: Policy
  readonly budget: Budget
  /** How many places there are to ask. */
  readonly targets: number
  readonly canPark: boolean
  readonly compacted: boolean
  readonly deadlineAt: number | null
  readonly now: () => number
  readonly dice: () => number
}

export type Rung = {
  readonly action: FailedAction
  readonly delayMs: number
  readonly decision: Decision
  /** With `retry`, and `stopped` where it is the end. */
  readonly fault: FaultReport
}

export class Ladder {
  readonly ledger: AttemptRecord[] = []
  readonly #options: LadderOptions
  #attempt = 1
  #attemptsBefore = 0
  #target = 0
  #failures: number
  #waitedMs: number

  constructor(options: LadderOptions) {
    this.#options = options
    this.#failures = options.budget.failures
    this.#waitedMs = options.budget.waitedMs
  }

  /** Number of the attempt under way. */
  get attempt(): number {
    return this.#attempt
  }

  /** Index of the place that is asked. */
  get target(): number {
    return this.#target
  }

  get budget(): Budget {
    return { failures: this.#failures, waitedMs: this.#waitedMs }
  }

  get attemptsMax(): number {
    return this.#options.policy.attemptsMax
  }

  /** The attempt under way has failed. `mayResume`: what it said so far can be continued where it broke off. */
  fail(fault: Fault, mayResume: boolean): Rung {
    if (fault.class !== 'cancelled') this.#failures++ // I1
    const { policy, now } = this.#options
    const at = now()
    const decision = decide(fault.report, this.#situation(), policy, at)
    const rung = this.#rung(fault, decision, mayResume, at)
    this.#waitedMs += rung.delayMs // I1
    return rung
  }

  /** Goes on as the rung says. */
  climb(rung: Rung): void {
    if (rung.action === 'fallback') {
      this.#target++
      this.#attemptsBefore = this.#attempt
    }
    this.#attempt++
  }

  record(record: AttemptRecord): void {
    this.ledger.push(record) // I2
  }

  // ---- details ----

  #situation(): AnswerSituation {
    const { canPark, compacted, deadlineAt, dice, targets } = this.#options
    return {
      at: 'answer',
      attempt: this.#attempt - this.#attemptsBefore,
      failures: this.#failures,
      waitedMs: this.#waitedMs,
      dice: dice(),
      parking: canPark ? { used: 0, usedMs: 0 } : 'impossible',
      compacted,
      isMixed: false,
      deadlineAt,
      fallbacks: targets - 1 - this.#target,
    }
  }

  #rung(fault: Fault, decision: Decision, mayResume: boolean, at: number): Rung {
    const delayMs = 'delayMs' in decision ? decision.delayMs : 0
    const action = actionOf(decision, mayResume)
    const goesOn = action === 'retry' || action === 'resume' || action === 'fallback'
    const report = fault.with({
      retry: {
        attempt: this.#attempt,
        max: this.attemptsMax,
        nextAt: nextAt(decision, goesOn, at + delayMs),
      },
      ...(goesOn ? {} : { stopped: decision.because }),
      ...(decision.action === 'stop' ? { error: lastWords(fault.error, decision.because, this.#attempt) } : {}),
    }).report
    return { action, delayMs, decision, fault: report }
  }
}

function actionOf(decision: Decision, mayResume: boolean): FailedAction {
  switch (decision.action) {
    case 'retry':
    case 'resolve':
    case 'restart':
      return mayResume ? 'resume' : 'retry'
    case 'fallback':
    case 'compact':
    case 'park':
    case 'stop':
      return decision.action
  }
}

function nextAt(decision: Decision, goesOn: boolean, at: number): string | null {
  if (goesOn) return new Date(at).toISOString()
  return decision.action === 'park' && decision.resumeAt !== null ? new Date(decision.resumeAt).toISOString() : null
}
