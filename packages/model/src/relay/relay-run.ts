/**
 * Drives the answer machine for a relayed request. The one difference to other drivers: bytes that went to the client cannot
 * be taken back, so from then on another attempt has to repeat them exactly.
 */
import type { Fault, FaultReport } from '@breakfall/faults'
import type { AttemptRecord } from '../contract/answer.ts'
import type { RungAction } from '../machine/next-rung.ts'
import { nextRung, type Rung, rungEvent } from '../machine/next-rung.ts'
import { type MachineEvent, reduceAnswer } from '../machine/reduce-answer.ts'
import { type AnswerState, initialAnswer, nextAttempt, nextQuestion, type Question } from '../machine/state.ts'
import { wasEmpty } from '../dialects/proof.ts'
import type { RelayTarget, ResolvedRelayOptions } from './relay.ts'
import { profileOf } from './relay-request.ts'
import type { RelayApiName } from '../contract/names.ts'
import { takesPrefill } from '../attempt/target.ts'
import type { AttemptTrace } from '../attempt/attempt.ts'

/** What a failed attempt leaves behind. */
export type RelayFailure = {
  readonly fault: Fault
  readonly diverged: boolean
  /** The model had started to answer, whether or not the client has seen any of it. */
  readonly contentStarted: boolean
  /** What the attempt sent to the client. */
  readonly sent: readonly MachineEvent[]
  /** Something with content went to the client, in this attempt or before it. */
  readonly contentSent: boolean
  /** Another answer can be compared with what went out. */
  readonly canReplay: boolean
  readonly record: (fault: FaultReport | null, action: RungAction | null, delayMs: number) => AttemptRecord
}

export class RelayRun {
  readonly ledger: AttemptRecord[] = []
  readonly #targets: readonly RelayTarget[]
  readonly #options: ResolvedRelayOptions
  readonly #takesPrefill: (target: RelayTarget) => boolean
  #state: AnswerState = reduceAnswer(initialAnswer(), { type: 'step-start' })
  #lastAction: 'retry' | 'resume' | 'fallback' | undefined

  constructor(api: RelayApiName, targets: readonly RelayTarget[], options: ResolvedRelayOptions) {
    this.#targets = targets
    this.#options = options
    this.#takesPrefill = (target) => takesPrefill({ api, profile: profileOf(target) })
  }

  /** One of the servers could continue a text. */
  get canContinue(): boolean {
    return this.#targets.some(this.#takesPrefill)
  }

  /** Number of the attempt to make now. */
  get attempt(): number {
    return nextAttempt(this.#state)
  }

  /** Where to make it. */
  get target(): RelayTarget {
    const target = this.#targets[this.#state.target]
    if (target === undefined)
      throw new Error(`there is no target ${this.#state.target} in a list of ${this.#targets.length}`)
    return target
  }

  get question(): Question {
    return nextQuestion(this.#state)
  }

  /** The last attempt was complete and held nothing. */
  get emptyBefore(): boolean {
    return wasEmpty(this.#state.lastFault)
  }

  /** Where the attempt belongs in the trace. */
  get trace(): AttemptTrace {
    const { traceparent, backoffMs } = this.#options.chat
    return { traceparent, attempt: this.attempt, backoffMs }
  }

  begin(): void {
    this.#options.onEvent({ type: 'attempt-start', attempt: this.attempt, baseUrl: this.target.baseUrl })
  }

  /** The attempt failed: counts it, records it and says what follows. */
  failed({ fault, diverged, contentStarted, sent, contentSent, canReplay, record }: RelayFailure): Rung {
    const { attempt, target } = this
    const { policy, deadlineAt, dice } = this.#options
    const now = this.#options.now()
    for (const event of sent) this.#state = reduceAnswer(this.#state, event)
    const ladder = {
      policy,
      canContinue: this.#takesPrefill(target),
      canTakeBack: !contentSent,
      canReplay,
      fallbacks: this.#targets.length - 1 - this.#state.target,
      canCompact: false, // the conversation is the client's
      canTell: false,
      canPark: false,
      deadlineAt,
      dice: dice(),
    }
    const rung = nextRung(this.#state, { attempt, fault, diverged, contentStarted }, ladder, now)
    this.#state = reduceAnswer(this.#state, rungEvent(rung, now))
    const { action } = rung
    const delayMs = 'delayMs' in rung ? rung.delayMs : 0
    this.#options.chat.backoffMs = delayMs
    this.ledger.push(record(rung.fault, action, delayMs))
    this.#options.onEvent({
      type: 'attempt-failed',
      attempt,
      fault: rung.fault,
      action,
      delayMs,
      afterContent: contentSent,
    })
    if (action === 'retry' || action === 'resume' || action === 'fallback') this.#lastAction = action
    return rung
  }

  complete(record: AttemptRecord): void {
    this.ledger.push(record)
    const { attempt } = this
    const how = this.#lastAction ?? (record.reattached === undefined ? undefined : 'reattach')
    if (how !== undefined) this.#options.onEvent({ type: 'healed', attempt, how })
  }
}
