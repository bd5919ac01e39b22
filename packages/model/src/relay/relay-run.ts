/**
 * Drives the answer machine for a relayed request, over as many attempts as it takes. The one difference to other drivers: bytes
 * that went to the client cannot be taken back, so from then on another attempt has to repeat them exactly.
 */
import { classify, Fault, type FaultReport, sleep } from '@breakfall/faults'
import { AnswerAttempt, type AnswerSink } from '../attempt/answer-attempt.ts'
import { withReplay } from '../attempt/replay.ts'
import type { Refusal } from '../attempt/attempt.ts'
import { takesPrefill } from '../attempt/target.ts'
import type { AttemptRecord } from '../contract/answer.ts'
import type { Doubt } from '../dialects/doubts.ts'
import { partCounter } from '../dialects/read-answer.ts'
import { parsedOr } from '../lib/json.ts'
import { continuationGate, prefillOf } from '../machine/kept-text.ts'
import { ladderOf, nextRung, type Rung, rungEvent } from '../machine/next-rung.ts'
import { PrefixGate } from '../machine/prefix-gate.ts'
import { reduceAnswer } from '../machine/reduce-answer.ts'
import { type AnswerState, initialAnswer, isLastAttempt, nextAttempt, nextQuestion } from '../machine/state.ts'
import { type RepairNote, RequestRepair } from '../repair/request-repair.ts'
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
import { placedBody } from './request-body.ts'

/** Who gets the answer: as a stream, or in one piece. */
export type RelayClient = {
  /** What went out, over all attempts. */
  readonly sent: Pick<ClientStream, 'contentSent' | 'canHeal' | 'begin' | 'failed' | 'stop' | 'replayGate' | 'takeSent'>
  /** Takes the answer of the attempt that begins. */
  sink(): AnswerSink
  waiting(rung: Extract<Rung, { delayMs: number }>): void
  /** What goes out now is a repaired request, or the client's own again. */
  repaired(notes: readonly RepairNote[]): void
  /** The answer is complete. Gives the status that the client got. */
  complete(attempt: AnswerAttempt): Promise<number> | number
  /** It failed for good, or the time is up. */
  end(fault: FaultReport, reported: Reported): Promise<number> | number
}

/** How the server itself said that it failed. */
export type Reported = {
  readonly refusal?: Refusal | undefined
  readonly errorFrame?: SseFrame | undefined
  /** The repaired request was refused as well. */
  readonly isUnrepairable?: boolean | undefined
}

export class RelayRun {
  readonly #request: RelayRequest
  readonly #targets: readonly RelayTarget[]
  readonly #options: ResolvedRelayOptions
  readonly #client: RelayClient
  readonly #ledger: AttemptRecord[] = []
  /** The frame in which the server reported the error that broke the answer. */
  #errorFrame: SseFrame | undefined
  #state: AnswerState = reduceAnswer(initialAnswer(), { type: 'step-start' })
  #lastAction: 'retry' | 'resume' | 'fallback' | 'repair' | undefined
  /** Of the request as it goes to the target that is asked now. */
  #repair: RequestRepair | undefined
  #repairedFor: RelayTarget | undefined
  /** How this target refused the client's own bytes. The client knows these words, and their places are those of its request. */
  #firstRefusal: { readonly fault: FaultReport; readonly reported: Reported } | undefined
  readonly #repairs: RelayOutcome['repairs'][number][] = []

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
      if (this.#repaired(attempt, verdict.fault)) continue
      const rung = this.#failed(attempt, this.#asServerError(attempt, verdict.fault))
      if (!('delayMs' in rung)) return this.#ended(rung.fault, attempt)
      this.#client.waiting(rung)
      await sleep(rung.delayMs, signal)
    }
  }

  // ---- details ----

  #begin(): AnswerAttempt {
    const { policy, signal, now, memory, chat, onEvent } = this.#options
    const request = this.#request
    const target = this.#target
    const asked = this.#askedOf(target)
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
        const sending = upstreamRequest(asked, target, prefill)
        return isStream ? withReplay(sending, baseUrl, profile) : sending
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

  /** The request with the body that this target gets. Another target has its own rules, so it gets the client's. */
  #askedOf(target: RelayTarget): RelayRequest {
    const { repair, conversations, memory } = this.#options
    const request = this.#request
    if (repair === 'auto' && this.#repairedFor !== target) {
      this.#noteRepairs(false)
      this.#repairedFor = target
      this.#firstRefusal = undefined
      const key = `${target.baseUrl} ${request.api} ${modelOf(request, target)}`
      this.#repair = new RequestRepair(request.body.blocks, { api: request.api, key, conversations, memory })
      this.#tellRepairs(this.#repair.notes)
    }
    const blocks = this.#repair?.body ?? request.body.blocks
    const body = blocks === request.body.blocks ? request.body : placedBody(blocks)
    return body === undefined ? request : { ...request, body }
  }

  /** The target refused the conversation, and there is another body to send, at once. */
  #repaired(failed: AnswerAttempt, fault: Fault): boolean {
    const { chat, onEvent } = this.#options
    const { sent } = this.#client
    const { refusal, errorFrame, progress, plan } = failed
    const repair = this.#repair
    if (repair === undefined || sent.contentSent || plan.resumed) return false
    const isHistory = fault.category === 'model_history_invalid'
    const isRefused = isHistory || (repair.isKnown && fault.category === 'model_bad_request')
    if (!isRefused || (refusal === undefined && progress > 0)) return false
    const said = refusal?.body.toString() ?? errorFrame?.data ?? fault.errorRaw
    const [wasKnown, before] = [repair.isKnown, repair.notes]
    if (!repair.refused(refusal?.status ?? 200, parsedOr(said))) return false
    const { attempt } = plan.trace
    sent.failed()
    if (!wasKnown) this.#firstRefusal ??= { fault: fault.report, reported: { refusal, errorFrame } }
    this.#state = reduceAnswer(this.#state, { type: 'repaired', attempt })
    chat.backoffMs = 0
    this.#ledger.push(failed.record(fault.report, 'repair', 0))
    this.#lastAction = 'repair'
    onEvent({ type: 'attempt-failed', attempt, fault: fault.report, action: 'repair', delayMs: 0, afterContent: false })
    if (repair.notes !== before) this.#tellRepairs(repair.notes)
    return true
  }

  #tellRepairs(notes: readonly RepairNote[]): void {
    const last = notes.at(-1)
    this.#client.repaired(notes)
    if (last !== undefined) this.#options.onEvent({ type: 'repaired', attempt: nextAttempt(this.#state), ...last })
  }

  #noteRepairs(isTaken: boolean): void {
    for (const note of this.#repair?.notes ?? []) this.#repairs.push({ ...note, isTaken })
  }

  /** llama.cpp reports a broken conversation with status 500. Where the request does not show it, 500 is what it says. */
  #asServerError({ refusal }: AnswerAttempt, fault: Fault): Fault {
    const isDoubted = this.#repair !== undefined && this.#firstRefusal === undefined
    if (fault.category !== 'model_history_invalid' || (refusal?.status ?? 0) < 500 || !isDoubted) return fault
    const { errorRaw, status } = fault.report
    return new Fault('model_server_error', { phase: 'headers', errorRaw, status, facts: { status } })
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
    this.#repair?.taken()
    this.#noteRepairs(true)
    const status = await this.#client.complete(attempt)
    return this.#outcome(status, null)
  }

  /** The client is gone, or our own deadline passed. */
  async #aborted(fault: Fault, attempt?: AnswerAttempt): Promise<RelayOutcome> {
    if (attempt !== undefined) this.#ledger.push(attempt.record(fault.report, 'stop', 0))
    if (fault.class !== 'cancelled') return this.#end(fault.report, {}) // no server is why it ends
    this.#noteRepairs(false)
    return this.#outcome(499, fault.report)
  }

  /** No rung is left. */
  #ended(fault: FaultReport, { refusal }: AnswerAttempt): Promise<RelayOutcome> {
    const first = this.#firstRefusal
    const isRefused = fault.category === 'model_bad_request' || fault.category === 'model_history_invalid'
    if (first === undefined || !isRefused) return this.#end(fault, { refusal, errorFrame: this.#errorFrame })
    return this.#end({ ...first.fault, stopped: fault.stopped }, { ...first.reported, isUnrepairable: true })
  }

  async #end(fault: FaultReport, reported: Reported): Promise<RelayOutcome> {
    this.#noteRepairs(false)
    const status = await this.#client.end(fault, reported)
    return this.#outcome(status, fault)
  }

  #outcome(status: number, fault: FaultReport | null): RelayOutcome {
    const { contentSent } = this.#client.sent
    return { status, fault, ledger: this.#ledger, contentSent, repairs: this.#repairs }
  }
}
