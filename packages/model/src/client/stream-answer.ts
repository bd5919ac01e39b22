/**
 * Asks a model for one answer and yields its events, whatever goes wrong. Drives the answer machine in memory.
 *
 * I1  It never throws after it starts, and its last event is `done` or `fault`, exactly one of them.
 * I2  A consumer that appends deltas and drops discarded parts holds exactly the answer after `done`, and nothing after `fault`.
 * I3  A tool call is released only when complete and proven, just before `done`.
 * I4  No attempt is hidden: each is in the ledger.
 */
import {
  classify,
  type Decision,
  type Fault,
  type FaultReport,
  isFault,
  type Policy,
  POLICY_DEFAULTS,
  sleep,
} from '@breakfall/faults'
import type { AnswerEvent, AnswerOptions, AnswerRequest, AttemptRecord } from '../contract/answer.ts'
import { systemDice, systemNow } from '../lib/clock.ts'
import { EventQueue } from '../lib/event-queue.ts'
import { Lifetime } from '../lib/lifetime.ts'
import { type AttemptFailure, ladderOf, nextRung, type Rung, rungEvent } from '../machine/next-rung.ts'
import { reduceAnswer } from '../machine/reduce-answer.ts'
import { type AnswerState, initialAnswer, isLastAttempt, nextAttempt, shownText } from '../machine/state.ts'
import { QueuedAttempt } from './queued-attempt.ts'
import { partCounter } from '../dialects/read-answer.ts'
import { resolvePolicy } from '../contract/resolve-policy.ts'
import { ChatSpan } from '../telemetry/chat-span.ts'
import { takesPrefill, type Target, targetsOf } from '../attempt/target.ts'
import { totalUsage } from '../attempt/usage.ts'

export function streamAnswer(request: AnswerRequest, options: AnswerOptions = {}): AsyncIterable<AnswerEvent> {
  return {
    [Symbol.asyncIterator]: () => new AnswerRun(request, options).events,
  }
}

// ---- details ----

class AnswerRun {
  readonly events: EventQueue<AnswerEvent>
  readonly #options: AnswerOptions
  readonly #policy: Policy
  readonly #now: () => number
  readonly #lifetime: Lifetime
  readonly #targets: readonly Target[]
  readonly #nextPartId = partCounter()
  readonly #ledger: AttemptRecord[] = []
  readonly #chat: ChatSpan
  #state: AnswerState
  #current: QueuedAttempt | undefined
  /** Set if the options are invalid and nothing is asked at all. */
  #refused: Fault | undefined

  constructor(request: AnswerRequest, options: AnswerOptions) {
    this.#options = options
    this.#policy = this.#resolved(options)
    this.#now = options.now ?? systemNow
    this.#targets = targetsOf(request, options.fallback ?? [])
    this.#lifetime = new Lifetime(options.signal, options.deadlineAt ?? null, this.#now)
    this.#state = reduceAnswer(initialAnswer(options.budget), { type: 'step-start' })
    const { api, request: first } = targetAt(this.#targets, this.#state)
    this.#chat = new ChatSpan({ api, model: first.model, baseUrl: first.baseUrl })
    this.events = new EventQueue<AnswerEvent>({
      onFull: () => this.#current?.pause(),
      onRoom: () => this.#current?.resume(),
      onLeft: () => this.#lifetime.end(),
    })
    void this.#run()
  }

  /** Invalid options end in a `fault` like any other failure: the caller's loop is running. */
  #resolved({ policy }: AnswerOptions): Policy {
    try {
      return resolvePolicy(policy)
    } catch (thrown) {
      this.#refused = classify(thrown, { boundary: 'client' })
      return POLICY_DEFAULTS
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#lifetime
    try {
      if (this.#refused !== undefined) throw this.#refused
      for (;;) {
        if (signal.aborted) return this.#aborted()
        const rung = await this.#attempt(targetAt(this.#targets, this.#state))
        if (rung === undefined) return
        if (rung.action === 'stop') return this.#end(rung.fault, rung.decision)
        if (rung.action === 'park' || rung.action === 'compact') return this.#end(handedBack(rung), rung.decision)
        await sleep(rung.delayMs, signal)
      }
    } catch (bug) {
      const fault = isFault(bug) ? bug : classify(bug, { boundary: 'daemon', signal })
      this.#end(fault.report, { action: 'stop', because: 'not_retryable' }) // I1
    } finally {
      this.#lifetime.dispose()
      this.events.close()
    }
  }

  /** One attempt. Undefined once the answer is complete, else what follows the failure. */
  async #attempt(target: Target): Promise<Rung | undefined> {
    const attempt = nextAttempt(this.#state)
    const current = new QueuedAttempt({
      attempt,
      target,
      kept: shownText(this.#state),
      policy: this.#policy,
      signal: this.#lifetime.signal,
      now: this.#now,
      nextPartId: this.#nextPartId,
      events: this.events,
      lastFault: this.#state.lastFault,
      isLast: isLastAttempt(this.#state, this.#targets.length, this.#policy),
      trace: this.#chat,
    })
    this.#current = current
    const result = await current.run()
    this.#current = undefined
    if (!result.complete) return this.#failed(current, target, { attempt, ...result })
    this.#ledger.push(current.record(null, null, 0)) // I4
    this.#state = reduceAnswer(this.#state, { type: 'answered' })
    const { finish, proven } = result
    const usage = totalUsage(this.#ledger)
    this.#chat.end({ finish, usage })
    this.events.push({ type: 'done', finish, proven, usage, ledger: this.#ledger, budget: this.#budget })
    return undefined
  }

  #failed(current: QueuedAttempt, target: Target, failure: AttemptFailure): Rung {
    const { attempt } = failure
    const now = this.#now()
    this.#state = reduceAnswer(this.#state, current.shown)
    const { canPark = false, compacted = false, deadlineAt = null, dice = systemDice } = this.#options
    const ladder = ladderOf({
      policy: this.#policy,
      canContinue: takesPrefill(target),
      fallbacks: this.#targets.length - 1 - this.#state.target,
      canCompact: !compacted,
      canPark,
      deadlineAt,
      dice: dice(),
    })
    const rung = nextRung(this.#state, failure, ladder, now)
    this.#discard(rung.discards, rung.fault)
    this.#state = reduceAnswer(this.#state, rungEvent(rung, now))
    const { action, max, fault } = rung
    const delayMs = 'delayMs' in rung ? rung.delayMs : 0
    this.#chat.backoffMs = delayMs
    this.#ledger.push(current.record(fault, action, delayMs)) // I4
    this.events.push({ type: 'attempt-failed', attempt, fault, action, delayMs, max })
    return rung
  }

  #discard(parts: AnswerState['parts'], because: FaultReport): void {
    this.#state = reduceAnswer(this.#state, { type: 'parts-discarded', parts })
    for (const { attempt, part } of parts) this.events.push({ type: 'part-discarded', attempt, part, because }) // I2
  }

  /** Between attempts, the caller cancelled, left, or its deadline passed. */
  #aborted(): void {
    const fault = classify(undefined, { boundary: 'client', phase: 'backoff', signal: this.#lifetime.signal })
    const because = fault.category === 'cancelled' ? 'cancelled' : 'deadline_passed'
    this.#discard(this.#state.parts, fault.report)
    this.#end(fault.with({ stopped: because }).report, { action: 'stop', because })
  }

  #end(fault: FaultReport, decision: Decision): void {
    this.#chat.end({ error: fault.category, usage: totalUsage(this.#ledger) })
    this.events.push({ type: 'fault', fault, decision, ledger: this.#ledger, budget: this.#budget })
  }

  get #budget() {
    const { failures, freeFailures, waitedMs } = this.#state.budget
    return { failures, freeFailures, waitedMs }
  }
}

/** The list is never empty, and the machine never moves past its end. */
function targetAt(targets: readonly Target[], { target }: AnswerState): Target {
  const found = targets[target]
  if (found === undefined) throw new Error(`there is no model ${target} in a list of ${targets.length}`)
  return found
}

/** Only the caller can wait durably or compact the conversation: for this call it is the end. */
function handedBack({ fault, decision, attempt, max }: Rung): FaultReport {
  const nextAt = 'resumeAt' in decision ? (fault.retry?.nextAt ?? null) : null
  return { ...fault, stopped: decision.because, retry: { attempt, max, nextAt } }
}
