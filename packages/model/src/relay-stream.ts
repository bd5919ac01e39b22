/**
 * Relays one streamed answer, over as many attempts as it takes.
 *
 * I1  Before content: any transient failure is tried again, and the client sees nothing of it.
 * I2  After content: continued by prefill, or asked for again and gone on with only if it begins with exactly what went
 *     out; else the stream ends with the API's own error. Never with a silent cut.
 */
import { classify, concluded, type Fault, type FaultReport } from '@breakfall/faults'
import type { FailedAction } from './answer.ts'
import { sleep } from './clock.ts'
import { plainFrame } from './client-shape.ts'
import { ClientStream } from './client-stream.ts'
import { KeptText } from './kept-text.ts'
import { Ladder, type Rung } from './ladder.ts'
import { PrefixGate } from './prefix-gate.ts'
import { RelayAttempt } from './relay-attempt.ts'
import { DONE_FRAME, errorAnswer, errorFrames, toldInBand } from './relay-error.ts'
import { profileOf, requiredIn } from './relay-request.ts'
import type { RelayOutcome, RelayRequest, RelaySink, RelayTarget, ResolvedRelayOptions } from './relay.ts'

export async function relayStream(
  request: RelayRequest,
  targets: readonly RelayTarget[],
  sink: RelaySink,
  options: ResolvedRelayOptions,
): Promise<RelayOutcome> {
  const run = new StreamRelay(request, targets, sink, options)
  try {
    return await run.run()
  } finally {
    run.dispose()
  }
}

export function relayLadder(targets: readonly RelayTarget[], options: ResolvedRelayOptions): Ladder {
  const { policy, now, dice } = options
  return new Ladder({
    policy,
    budget: { failures: 0, waitedMs: 0 },
    targets: targets.length,
    canPark: false,
    compacted: true,
    deadlineAt: options.deadlineAt,
    now,
    dice,
  })
}

// ---- details ----

class StreamRelay {
  readonly #request: RelayRequest
  readonly #targets: readonly RelayTarget[]
  readonly #sink: RelaySink
  readonly #options: ResolvedRelayOptions
  readonly #client: ClientStream
  readonly #ladder: Ladder
  readonly #kept = new KeptText()
  #isResuming = false
  #lastFailure: { fault: Fault; how: 'retry' | 'resume' | 'fallback' } | undefined

  constructor(request: RelayRequest, targets: readonly RelayTarget[], sink: RelaySink, options: ResolvedRelayOptions) {
    this.#request = request
    this.#targets = targets
    this.#sink = sink
    this.#options = options
    this.#client = new ClientStream(request.api, sink, options)
    this.#ladder = relayLadder(targets, options)
  }

  async run(): Promise<RelayOutcome> {
    const { signal } = this.#options
    for (;;) {
      if (signal.aborted) return this.#left(classify(undefined, { boundary: 'client', signal }))
      const attempt = this.#start()
      const fault = await attempt.run()
      if (fault === undefined) return this.#whole(attempt)
      const outcome = await this.#failed(attempt, fault)
      if (outcome !== undefined) return outcome
    }
  }

  dispose(): void {
    this.#client.stop()
  }

  #start(): RelayAttempt {
    const { attempt, target: at } = this.#ladder
    const target = this.#targets[at] as RelayTarget
    this.#options.onEvent({ type: 'attempt-start', attempt, baseUrl: target.baseUrl })
    const gate = this.#isResuming
      ? this.#kept.gate(profileOf(target).prefillEcho)
      : new PrefixGate(this.#client.contentSent ? [this.#client.segments.map((segment) => ({ ...segment }))] : [])
    return new RelayAttempt({
      attempt,
      request: this.#request,
      target,
      client: this.#client,
      required: requiredIn(this.#request.json),
      prefill: this.#isResuming ? this.#kept.prefill : '',
      gate,
      options: this.#options,
    })
  }

  #whole(attempt: RelayAttempt): RelayOutcome {
    this.#ladder.record(attempt.record(null, null, 0))
    if (this.#lastFailure !== undefined)
      this.#options.onEvent({ type: 'healed', attempt: this.#ladder.attempt, how: this.#lastFailure.how })
    this.#client.finish()
    return { status: 200, fault: null, ledger: this.#ladder.ledger, contentSent: this.#client.contentSent }
  }

  /** Undefined where another attempt follows. */
  async #failed(attempt: RelayAttempt, cause: Fault): Promise<RelayOutcome | undefined> {
    const client = this.#client
    if (this.#options.signal.aborted) return this.#left(cause, attempt)
    const isVoidResume = attempt.resumed && (cause.category === 'model_bad_request' || attempt.isMismatch)
    if (isVoidResume) this.#kept.refuse()
    const fault = isVoidResume && cause.report.next === 'never' ? cause.with({ next: 'retry' }) : cause
    const rung = this.#ladder.fail(fault, this.#mayResume())
    const isLost = client.contentSent && (!client.canHeal || (attempt.isMismatch && !attempt.resumed)) // I2
    const action = isLost ? 'stop' : rung.action
    this.#ladder.record(attempt.record(rung.fault, action, rung.delayMs))
    this.#tell(rung, action)
    if (isLost) return this.#end(attempt, this.#lost(attempt, rung.fault))
    if (action === 'stop' || action === 'park' || action === 'compact') return this.#end(attempt, rung.fault)
    this.#isResuming = action === 'resume'
    this.#lastFailure = { fault, how: action }
    await sleep(rung.delayMs, this.#options.signal)
    this.#ladder.climb(rung)
    return undefined
  }

  #mayResume(): boolean {
    const { contentSent, segments } = this.#client
    const target = this.#targets[this.#ladder.target] as RelayTarget
    const text = segments.map((segment) => segment.text).join('')
    this.#kept.clear()
    const may =
      contentSent && this.#kept.mayResume({ api: this.#request.api, profile: profileOf(target) }, segments, text)
    if (may) this.#kept.take(text)
    return may
  }

  #tell({ delayMs, fault }: Rung, action: FailedAction): void {
    const { attempt, attemptsMax } = this.#ladder
    const afterContent = this.#client.contentSent
    this.#options.onEvent({ type: 'attempt-failed', attempt, fault, action, delayMs, afterContent })
    if (action !== 'retry' && action !== 'resume' && action !== 'fallback') return
    this.#client.comment(`breakfall ${action} ${attempt + 1}/${attemptsMax} ${fault.category} in ${delayMs} ms`)
    this.#client.flush()
  }

  /** What broke is the news, not that the second try differed from the first. */
  #lost(attempt: RelayAttempt, last: FaultReport): FaultReport {
    const fault = attempt.isMismatch && this.#lastFailure !== undefined ? this.#lastFailure.fault.report : last
    const error = concluded(fault.error, 'What had been passed on could not be continued, so the stream ends here.')
    return { ...fault, error, stopped: 'not_retryable' }
  }

  #end(attempt: RelayAttempt | undefined, fault: FaultReport): RelayOutcome {
    const { ledger } = this.#ladder
    const client = this.#client
    if (client.headSent) {
      client.finishWith(this.#passedOn(attempt, fault) ?? errorFrames(this.#request.api, fault))
      return { status: 200, fault, ledger, contentSent: client.contentSent }
    }
    client.stop()
    const told = attempt?.errorFrame && toldInBand(fault, attempt.errorFrame.data)
    const answer = errorAnswer(this.#request.api, fault, attempt?.refusal ?? told)
    this.#sink.head(answer.status, answer.headers)
    this.#sink.write(answer.body)
    this.#sink.end()
    return { status: answer.status, fault, ledger, contentSent: false }
  }

  /** An error that the server told inside the stream and that trying again cannot mend goes on as it came. */
  #passedOn(attempt: RelayAttempt | undefined, fault: FaultReport): string | undefined {
    const isFinal = fault.class !== 'transient' && fault.class !== 'throttled'
    if (attempt?.errorFrame === undefined || !isFinal) return undefined
    return plainFrame(attempt.errorFrame) + (this.#request.api === 'openai-chat' ? DONE_FRAME : '')
  }

  /** The client has gone, or our own time is up. */
  #left(fault: Fault, attempt?: RelayAttempt): RelayOutcome {
    if (attempt !== undefined) this.#ladder.record(attempt.record(fault.report, 'stop', 0))
    if (fault.class !== 'cancelled') return this.#end(attempt, fault.report)
    return { status: 499, fault: fault.report, ledger: this.#ladder.ledger, contentSent: this.#client.contentSent }
  }
}
