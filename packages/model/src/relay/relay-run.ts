/**
 * Drives the answer machine for a relayed request, over as many attempts as it takes. The one difference to other drivers: bytes
 * that went to the client cannot be taken back, so from then on another attempt has to repeat them exactly.
 */
import { classify, type Fault, type FaultReport, sleep } from '@breakfall/faults'
import { AnswerAttempt, type AnswerSink } from '../attempt/answer-attempt.ts'
import { withReplay } from '../attempt/replay.ts'
import type { Refusal } from '../attempt/attempt.ts'
import { takesPrefill } from '../attempt/target.ts'
import type { AttemptRecord } from '../contract/answer.ts'
import type { Doubt } from '../dialects/doubts.ts'
import { partCounter } from '../dialects/read-answer.ts'
import { continuationGate, prefillOf } from '../machine/kept-text.ts'
import { ladderOf, nextRung, type Rung, rungEvent } from '../machine/next-rung.ts'
import { PrefixGate } from '../machine/prefix-gate.ts'
import { reduceAnswer } from '../machine/reduce-answer.ts'
import { type AnswerState, initialAnswer, isLastAttempt, nextAttempt, nextQuestion } from '../machine/state.ts'
import type { SseFrame } from '@breakfall/wire'
import type { ClientStream } from './client-stream.ts'
import type { RelayOutcome, RelayRequest, RelayTarget, ResolvedRelayOptions } from './relay.ts'
import { parsedBody } from './request-body.ts'
import {
  choicesAsked,
  isBackground,
  modelOf,
  outputLimit,
  profileOf,
  requiredIn,
  upstreamRequest,
} from './relay-request.ts'

/** Who gets the answer: as a stream, or in one piece. */
export type RelayClient = {
  /** What went out, over all attempts. */
  readonly sent: Pick<ClientStream, 'contentSent' | 'canHeal' | 'begin' | 'failed' | 'stop' | 'replayGate' | 'takeSent'>
  /** Takes the answer of the attempt that begins. */
  sink(): AnswerSink
  waiting(rung: Extract<Rung, { delayMs: number }>): void
  /** The answer is complete. Gives the status that the client got. */
  complete(attempt: AnswerAttempt): Promise<number> | number
  /** It failed for good, or the time is up. */
  end(fault: FaultReport, reported: Reported): Promise<number> | number
}

/** How the server itself said that it failed. */
export type Reported = { readonly refusal?: Refusal | undefined; readonly errorFrame?: SseFrame | undefined }

export class RelayRun {
  readonly #request: RelayRequest
  readonly #targets: readonly RelayTarget[]
  readonly #options: ResolvedRelayOptions
  readonly #client: RelayClient
  readonly #ledger: AttemptRecord[] = []
  /** The frame in which the server reported the error that broke the answer. */
  #errorFrame: SseFrame | undefined
  #state: AnswerState = reduceAnswer(initialAnswer(), { type: 'step-start' })
  #lastAction: 'retry' | 'resume' | 'fallback' | undefined

  constructor(
    request: RelayRequest,
    targets: readonly RelayTarget[],
    client: RelayClient,
    options: ResolvedRelayOptions,
  ) {
    this.#request = request
    this.#targets = targets
    this.#client = client
    this.#options = options
  }

  async run(): Promise<RelayOutcome> {
    const { signal } = this.#options
    for (;;) {
      if (signal.aborted) return this.#aborted(classify(undefined, { boundary: 'client', signal }))
      const attempt = this.#begin()
      const verdict = await attempt.run()
      if (!verdict.complete || !attempt.prefersWhole) attempt.memory.close() // a body in one piece is held until it was sent
      if (verdict.complete) return this.#complete(attempt, verdict.doubt)
      if (signal.aborted) return this.#aborted(verdict.fault, attempt)
      const rung = this.#failed(attempt, verdict.fault)
      if (!('delayMs' in rung)) return this.#end(rung.fault, { refusal: attempt.refusal, errorFrame: this.#errorFrame })
      this.#client.waiting(rung)
      await sleep(rung.delayMs, signal)
    }
  }

  // ---- details ----

  #begin(): AnswerAttempt {
    const { policy, signal, now, memory, chat, onEvent } = this.#options
    const request = this.#request
    const target = this.#target
    const { baseUrl } = target
    const profile = profileOf(target)
    const trace = { traceparent: chat.traceparent, attempt: nextAttempt(this.#state), backoffMs: chat.backoffMs }
    onEvent({ type: 'attempt-start', attempt: trace.attempt, baseUrl })
    const question = nextQuestion(this.#state)
    const prefill = question.how === 'continue' ? prefillOf(question.text) : ''
    const { sent } = this.#client
    const isHealing = sent.contentSent
    const sink = this.#client.sink()
    const isStream = sink.prefersWhole !== true
    sent.begin()
    const plan = {
      api: request.api,
      model: modelOf(request, target),
      baseUrl,
      profile,
      request: () => {
        const asked = upstreamRequest(request, target, prefill)
        return isStream ? withReplay(asked, baseUrl, profile) : asked
      },
      isBackground: isStream && isBackground(request, target),
      resumed: prefill !== '',
      gate:
        question.how === 'whole'
          ? new PrefixGate([])
          : question.how === 'continue'
            ? continuationGate(question.text, profile.prefillEcho)
            : sent.replayGate(),
      everyJson: isHealing,
      choices: choicesAsked(request.json),
      nextPartId: partCounter(),
      required: requiredIn(request.json),
      maxTokens: outputLimit(request.json),
      asked: () => parsedBody(request.body),
      empty: this.#options.empty,
      isLast: isLastAttempt(this.#state, this.#targets.length, policy),
      lastFault: this.#state.lastFault,
      policy,
      signal,
      now,
      memory: memory.part(),
      trace,
      onProgress: isStream ? () => chat.chunk() : undefined,
    }
    return new AnswerAttempt(plan, sink)
  }

  get #target(): RelayTarget {
    const target = this.#targets[this.#state.target]
    if (target === undefined)
      throw new Error(`there is no target ${this.#state.target} in a list of ${this.#targets.length}`)
    return target
  }

  /** The attempt failed: counts it, records it and says what follows. */
  #failed(failed: AnswerAttempt, fault: Fault): Rung {
    const { sent } = this.#client
    const { policy, deadlineAt, dice, chat, onEvent } = this.#options
    const { profile, api, trace } = failed.plan
    const { attempt } = trace
    const now = this.#options.now()
    sent.failed()
    // An attempt that only diverged did not break the answer: the one before it did.
    if (!failed.diverged) this.#errorFrame = failed.errorFrame
    for (const event of sent.takeSent(attempt)) this.#state = reduceAnswer(this.#state, event)
    const ladder = ladderOf({
      policy,
      canContinue: takesPrefill({ api, profile }),
      canTakeBack: !sent.contentSent,
      canReplay: sent.canHeal,
      fallbacks: this.#targets.length - 1 - this.#state.target,
      deadlineAt,
      dice: dice(),
    })
    const { diverged, progress } = failed
    const rung = nextRung(this.#state, { attempt, fault, diverged, contentStarted: progress > 0 }, ladder, now)
    this.#state = reduceAnswer(this.#state, rungEvent(rung, now))
    const { action } = rung
    const delayMs = 'delayMs' in rung ? rung.delayMs : 0
    chat.backoffMs = delayMs
    this.#ledger.push(failed.record(rung.fault, action, delayMs))
    onEvent({ type: 'attempt-failed', attempt, fault: rung.fault, action, delayMs, afterContent: sent.contentSent })
    if (action === 'retry' || action === 'resume' || action === 'fallback') this.#lastAction = action
    return rung
  }

  async #complete(attempt: AnswerAttempt, doubt: Doubt | undefined): Promise<RelayOutcome> {
    const record = attempt.record(null, null, 0)
    if (doubt !== undefined) this.#options.onEvent({ type: 'doubt', attempt: record.attempt, ...doubt })
    this.#ledger.push(record)
    const how = this.#lastAction ?? (record.reattached === undefined ? undefined : 'reattach')
    if (how !== undefined) this.#options.onEvent({ type: 'healed', attempt: record.attempt, how })
    const status = await this.#client.complete(attempt)
    return { status, fault: null, ledger: this.#ledger, contentSent: this.#client.sent.contentSent }
  }

  /** The client is gone, or our own deadline passed. */
  async #aborted(fault: Fault, attempt?: AnswerAttempt): Promise<RelayOutcome> {
    if (attempt !== undefined) this.#ledger.push(attempt.record(fault.report, 'stop', 0))
    if (fault.class !== 'cancelled') return this.#end(fault.report, {}) // no server is why it ends
    return { status: 499, fault: fault.report, ledger: this.#ledger, contentSent: this.#client.sent.contentSent }
  }

  async #end(fault: FaultReport, reported: Reported): Promise<RelayOutcome> {
    const status = await this.#client.end(fault, reported)
    return { status, fault, ledger: this.#ledger, contentSent: this.#client.sent.contentSent }
  }
}
