/**
 * Asks a model for one answer and yields its events, whatever happens on the way.
 *
 * I1  It never throws after it starts, and its last event is `done` or `fault`, exactly one of them.
 * I2  Who appends the deltas and drops the discarded parts holds exactly the answer after `done`, and nothing after `fault`.
 * I3  A tool call is released only whole and proven, just before `done`.
 */
import {
  classify,
  type Decision,
  type Fault,
  type FaultReport,
  isFault,
  type Policy,
  POLICY_DEFAULTS,
} from '@breakfall/faults'
import type { AnswerEvent, AnswerOptions, AnswerRequest, Budget } from './answer.ts'
import { AnswerAttempt } from './answer-attempt.ts'
import { sleep, systemDice, systemNow } from './clock.ts'
import { EventQueue } from './event-queue.ts'
import { KeptText } from './kept-text.ts'
import { Ladder, type Rung } from './ladder.ts'
import { Lifetime } from './lifetime.ts'
import { partCounter } from './parts.ts'
import { resolvePolicy } from './resolve-policy.ts'
import { type Target, targetsOf } from './target.ts'
import { totalUsage } from './usage.ts'

export function streamAnswer(request: AnswerRequest, options: AnswerOptions = {}): AsyncIterable<AnswerEvent> {
  return {
    [Symbol.asyncIterator]: () => new AnswerRun(request, options).events,
  }
}

// ---- details ----

const NO_BUDGET_USED: Budget = { failures: 0, waitedMs: 0 }

class AnswerRun {
  readonly events: EventQueue<AnswerEvent>
  readonly #policy: Policy
  readonly #now: () => number
  readonly #lifetime: Lifetime
  readonly #targets: readonly Target[]
  readonly #ladder: Ladder
  readonly #nextPartId = partCounter()
  readonly #kept = new KeptText()
  /** Parts shown and not taken back. */
  #shown: { readonly attempt: number; readonly part: string }[] = []
  #current: AnswerAttempt | undefined
  /** Why nothing is asked at all. */
  #refused: Fault | undefined

  constructor(request: AnswerRequest, options: AnswerOptions) {
    this.#policy = this.#resolved(options)
    this.#now = options.now ?? systemNow
    this.#targets = targetsOf(request, options.fallback ?? [])
    const deadlineAt = options.deadlineAt ?? null
    this.#lifetime = new Lifetime(options.signal, deadlineAt, this.#now)
    this.#ladder = new Ladder({
      policy: this.#policy,
      budget: options.budget ?? NO_BUDGET_USED,
      targets: this.#targets.length,
      canPark: options.canPark ?? false,
      compacted: options.compacted ?? false,
      deadlineAt,
      now: this.#now,
      dice: options.dice ?? systemDice,
    })
    this.events = new EventQueue<AnswerEvent>({
      onFull: () => this.#current?.pause(),
      onRoom: () => this.#current?.resume(),
      onLeft: () => this.#lifetime.end(),
    })
    void this.#run()
  }

  /** Options that make no sense are an event like any other failure: the caller's loop has begun. */
  #resolved({ policy }: AnswerOptions): Policy {
    try {
      return resolvePolicy(policy)
    } catch (thrown) {
      this.#refused = classify(thrown, { boundary: 'client' })
      return POLICY_DEFAULTS
    }
  }

  async #run(): Promise<void> {
    try {
      if (this.#refused !== undefined) throw this.#refused
      while (!this.#isEnded()) {
        const rung = await this.#attempt()
        if (rung === undefined || !(await this.#goOn(rung))) break
      }
    } catch (bug) {
      const fault = isFault(bug) ? bug : classify(bug, { boundary: 'daemon', signal: this.#lifetime.signal })
      this.#end(fault.report, { action: 'stop', because: 'not_retryable' }) // I1
    } finally {
      this.#lifetime.dispose()
      this.events.close()
    }
  }

  /** True where another attempt follows. */
  async #goOn(rung: Rung): Promise<boolean> {
    if (rung.action === 'stop' || rung.action === 'park' || rung.action === 'compact') {
      this.#end(rung.fault, rung.decision)
      return false
    }
    await sleep(rung.delayMs, this.#lifetime.signal)
    this.#ladder.climb(rung)
    return true
  }

  /** Between attempts: whether the caller, its deadline or its leaving has ended the call. Says so where it has. */
  #isEnded(): boolean {
    const { signal } = this.#lifetime
    if (!signal.aborted) return false
    const fault = classify(undefined, { boundary: 'client', phase: 'backoff', signal })
    const because = fault.category === 'cancelled' ? 'cancelled' : 'deadline_passed'
    this.#discard(fault.report)
    this.#end(fault.with({ stopped: because }).report, { action: 'stop', because })
    return true
  }

  /** One try. Undefined where the answer is there, else what to do about the failure. */
  async #attempt(): Promise<Rung | undefined> {
    const { attempt } = this.#ladder
    const current = new AnswerAttempt({
      attempt,
      target: this.#targets[this.#ladder.target] as Target,
      kept: this.#kept,
      policy: this.#policy,
      signal: this.#lifetime.signal,
      now: this.#now,
      nextPartId: this.#nextPartId,
      events: this.events,
      shown: (part) => this.#shown.push({ attempt, part }),
    })
    this.#current = current
    const result = await current.result
    this.#current = undefined
    if (!result.complete) return this.#failed(current, result.fault, result.mayResume)
    this.#ladder.record(current.record(null, null, 0))
    const { finish, proven } = result
    const { ledger, budget } = this.#ladder
    this.events.push({ type: 'done', finish, proven, usage: totalUsage(ledger), ledger, budget })
    return undefined
  }

  #failed(current: AnswerAttempt, fault: Fault, mayResume: boolean): Rung {
    const { attempt } = this.#ladder
    const rung = this.#ladder.fail(fault, mayResume)
    if (rung.action === 'resume') this.#kept.take(current.shownText)
    else this.#discard(rung.fault)
    this.#ladder.record(current.record(rung.fault, rung.action, rung.delayMs))
    const { action, delayMs } = rung
    const max = this.#ladder.attemptsMax
    this.events.push({ type: 'attempt-failed', attempt, fault: rung.fault, action, delayMs, max })
    return rung
  }

  #discard(because: FaultReport): void {
    for (const { attempt, part } of this.#shown) this.events.push({ type: 'part-discarded', attempt, part, because }) // I2
    this.#shown = []
    this.#kept.clear()
  }

  #end(fault: FaultReport, decision: Decision): void {
    const { ledger, budget } = this.#ladder
    this.events.push({ type: 'fault', fault, decision, ledger, budget })
  }
}
