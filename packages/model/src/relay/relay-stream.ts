/**
 * Relays one streamed answer, over as many attempts as it takes.
 *
 * I1  Before content: any transient failure is retried, and the client sees nothing of it.
 * I2  After content: continued by prefill, or asked for again and forwarded only if it starts with exactly what went out; else
 *     the stream ends as the upstream's did: with its own error if it sent one, else with a closed connection and the reason in
 *     a comment before it. Never with an end that looks proper.
 */
import { classify, type Fault, type FaultReport, sleep } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import { plainFrame } from '../dialects/dialect.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { objectOr, parsedOr } from '../lib/json.ts'
import { ClientStream } from './client-stream.ts'
import { continuationGate, prefillOf } from '../machine/kept-text.ts'
import type { Rung } from '../machine/next-rung.ts'
import { PrefixGate } from '../machine/prefix-gate.ts'
import type { Question } from '../machine/state.ts'
import { RelayAttempt } from './relay-attempt.ts'
import { asBreak, errorAnswer, errorFrames, inBandRefusal, isFinal } from './relay-error.ts'
import { outputLimit, profileOf, requiredIn } from './relay-request.ts'
import { RelayRun } from './relay-run.ts'
import type { RelayOutcome, RelayRequest, RelaySink, RelayTarget, ResolvedRelayOptions } from './relay.ts'

export async function relayStream(
  request: RelayRequest,
  targets: readonly RelayTarget[],
  sink: RelaySink,
  options: ResolvedRelayOptions,
): Promise<RelayOutcome> {
  const relay = new StreamRelay(request, targets, sink, options)
  try {
    return await relay.run()
  } finally {
    relay.dispose()
  }
}

// ---- details ----

class StreamRelay {
  readonly #request: RelayRequest
  readonly #sink: RelaySink
  readonly #options: ResolvedRelayOptions
  readonly #client: ClientStream
  readonly #run: RelayRun
  /** The frame in which the server reported the error that broke the answer. */
  #errorFrame: SseFrame | undefined

  constructor(request: RelayRequest, targets: readonly RelayTarget[], sink: RelaySink, options: ResolvedRelayOptions) {
    this.#request = request
    this.#sink = sink
    this.#options = options
    this.#run = new RelayRun(request.api, targets, options)
    this.#client = new ClientStream(request, sink, options, this.#run.canContinue)
  }

  async run(): Promise<RelayOutcome> {
    const { signal } = this.#options
    for (;;) {
      if (signal.aborted) return this.#aborted(classify(undefined, { boundary: 'client', signal }))
      const attempt = this.#start()
      const fault = await attempt.run()
      if (fault === undefined) return this.#complete(attempt)
      if (signal.aborted) return this.#aborted(fault, attempt)
      const rung = this.#failed(attempt, fault)
      if (!('delayMs' in rung)) return this.#end(attempt, rung.fault)
      this.#comment(rung)
      await sleep(rung.delayMs, signal)
    }
  }

  dispose(): void {
    this.#client.stop()
  }

  #start(): RelayAttempt {
    const { trace, target, question } = this.#run
    this.#run.begin()
    return new RelayAttempt({
      trace,
      request: this.#request,
      target,
      client: this.#client,
      required: requiredIn(this.#request.json),
      maxTokens: outputLimit(this.#request.json),
      prefill: question.how === 'continue' ? prefillOf(question.text) : '',
      gate: this.#gateFor(question, target),
      emptyBefore: this.#run.emptyBefore,
      options: this.#options,
    })
  }

  #gateFor(question: Question, target: RelayTarget): PrefixGate {
    switch (question.how) {
      case 'whole':
        return new PrefixGate([])
      case 'continue':
        return continuationGate(question.text, profileOf(target).prefillEcho)
      case 'replay':
        return this.#client.replayGate()
    }
  }

  #failed(attempt: RelayAttempt, fault: Fault): Rung {
    this.#client.failed()
    // An attempt that only diverged did not break the answer: the one before it did.
    if (!attempt.diverged) this.#errorFrame = attempt.errorFrame
    const { contentSent, canHeal } = this.#client
    return this.#run.failed({
      fault,
      diverged: attempt.diverged,
      contentStarted: attempt.progress > 0,
      sent: this.#client.takeSent(this.#run.attempt),
      contentSent,
      canReplay: canHeal,
      record: (...outcome) => attempt.record(...outcome),
    })
  }

  #complete(attempt: RelayAttempt): RelayOutcome {
    this.#run.complete(attempt.record(null, null, 0))
    if (!attempt.lacksUsage) this.#client.finish()
    else {
      this.#options.onEvent({ type: 'usage-lost', attempt: this.#run.attempt })
      // The server did not say that this is all, so neither do we.
      this.#client.finishWith(': breakfall the answer is complete, but the stream broke before its token counts\n\n')
    }
    return { status: 200, fault: null, ledger: this.#run.ledger, contentSent: this.#client.contentSent }
  }

  #comment({ action, attempt, max, delayMs, fault }: Extract<Rung, { delayMs: number }>): void {
    this.#client.comment(`breakfall ${action} ${attempt + 1}/${max} ${fault.category} in ${delayMs} ms`)
    this.#client.flush()
  }

  #end(attempt: RelayAttempt | undefined, fault: FaultReport): RelayOutcome {
    const { ledger } = this.#run
    const client = this.#client
    if (client.headSent) {
      this.#endStream(fault)
      return { status: 200, fault, ledger, contentSent: client.contentSent }
    }
    client.stop()
    const inBand = attempt?.errorFrame && inBandRefusal(fault, this.#reported(attempt.errorFrame))
    const answer = errorAnswer(this.#request.api, fault, attempt?.refusal ?? inBand)
    this.#sink.head(answer.status, answer.headers)
    this.#sink.write(answer.body)
    this.#sink.end()
    return { status: answer.status, fault, ledger, contentSent: false }
  }

  /** An error in the stream where the API's clients need one; else the upstream's own error, or a closed connection. */
  #endStream(fault: FaultReport): void {
    const client = this.#client
    const { api } = this.#request
    const { shape } = client
    const frame = this.#errorFrame
    const told = client.contentSent ? asBreak(fault) : fault
    if (shape.errorEnd !== undefined) {
      const reported = frame !== undefined && isFinal(fault) ? objectOr(parsedOr(frame.data)) : undefined
      client.finishWith(shape.errorEnd(told, reported))
    } else if (frame !== undefined) client.finishWith(plainFrame(frame) + DIALECTS[api].afterError)
    else if (client.contentSent) client.breakOff(fault, errorFrames(api, told))
    else client.finishWith(errorFrames(api, told))
  }

  /** The body of the response that the server should have refused with. */
  #reported({ data }: SseFrame): string {
    const { reportedError } = DIALECTS[this.#request.api]
    return JSON.stringify(reportedError(objectOr(parsedOr(data))))
  }

  /** The client is gone, or our own deadline passed. */
  #aborted(fault: Fault, attempt?: RelayAttempt): RelayOutcome {
    const { ledger } = this.#run
    if (attempt !== undefined) ledger.push(attempt.record(fault.report, 'stop', 0))
    this.#errorFrame = undefined // what broke an earlier attempt is not why it ends
    if (fault.class !== 'cancelled') return this.#end(attempt, fault.report)
    return { status: 499, fault: fault.report, ledger, contentSent: this.#client.contentSent }
  }
}
