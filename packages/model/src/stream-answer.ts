/**
 * Asks a model for one answer and yields its events, whatever happens on the way.
 *
 * I1  It never throws after it starts, and its last event is `done` or `fault`, exactly one of them.
 * I2  Who appends the deltas and drops the discarded parts holds exactly the answer after `done`, and nothing after `fault`.
 * I3  A tool call is released only whole and proven, just before `done`.
 */
import { classify, type Decision, type Fault, type FaultReport, isFault, type Policy } from '@breakfall/faults'
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

const DELTA_CHARS_MAX = 4_096

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

  constructor(request: AnswerRequest, options: AnswerOptions) {
    this.#policy = resolvePolicy(options.policy)
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
      firstAttempt: options.firstAttempt ?? 1,
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

  async #run(): Promise<void> {
    try {
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
    const target = this.#targets[this.#ladder.target] as Target
    const { model, baseUrl } = target.request
    this.events.push({ type: 'attempt-start', attempt, model, baseUrl })
    const current = new AnswerAttempt({
      attempt,
      target,
      kept: this.#kept,
      policy: this.#policy,
      signal: this.#lifetime.signal,
      now: this.#now,
      nextPartId: this.#nextPartId,
      emit: (event) => this.events.push(event),
      emitText: (kind, part, text) => this.#emitText(kind, attempt, part, text),
      shown: (part) => this.#shown.push({ attempt, part }),
    })
    this.#current = current
    if (this.events.isFull) current.pause()
    const result = await current.result
    this.#current = undefined
    if (result.phase === 'stream') this.events.push({ type: 'usage', attempt, usage: result.usage })
    if (result.verdict.complete) {
      this.#ladder.record(current.record(null, null, 0))
      for (const call of current.released()) this.events.push(call) // I3
      const { finish, proven } = result.verdict
      const { ledger, budget } = this.#ladder
      this.events.push({ type: 'done', finish, proven, usage: totalUsage(ledger), ledger, budget })
      return undefined
    }
    return this.#failed(current, result.verdict.fault)
  }

  /** Text that came in one read of the socket is one event: a consumer that is behind gets fewer and longer ones. */
  #emitText(type: 'text-delta' | 'reasoning-delta', attempt: number, part: string, text: string): void {
    const { last } = this.events
    if (last?.type === type && last.part === part && last.text.length < DELTA_CHARS_MAX) last.text += text
    else this.events.push({ type, attempt, part, text })
  }

  #failed(current: AnswerAttempt, cause: Fault): Rung {
    const { attempt } = this.#ladder
    const isVoidResume = current.resumed && (cause.category === 'model_bad_request' || current.isMismatch)
    if (isVoidResume) this.#kept.refuse()
    // The server takes no unfinished message, or did not go on from it: that rung is void, the one below is not.
    const fault = isVoidResume && cause.report.next === 'never' ? cause.with({ next: 'retry' }) : cause
    const rung = this.#ladder.fail(fault, this.#kept.mayResume(current.target, current.state.parts, current.shownText))
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
