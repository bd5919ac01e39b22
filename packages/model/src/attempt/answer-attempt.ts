/**
 * One attempt at an answer: asks for it, reads it, and judges whether it is complete. A sink takes it: a queue of
 * events, a client's stream, or a body in one piece. What follows a failure is up to the caller.
 *
 * I1  Nothing happens before `run`, and no failure of the server or the transport makes it throw.
 * I2  If the beginning of the answer is known already, nothing reaches the sink before the answer has repeated it.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, type FaultReport, isFault, type Policy } from '@breakfall/faults'
import type { SseFrame, SseRead } from '@breakfall/wire'
import { type MemoryShare, taking } from '@breakfall/wire/node'
import type { AttemptPhase, AttemptRecord, Usage } from '../contract/answer.ts'
import type { RelayApiName } from '../contract/names.ts'
import type { ChosenProfile } from '../contract/profiles.ts'
import type { Dialect } from '../dialects/dialect.ts'
import type { Doubt } from '../dialects/doubts.ts'
import { dialectOf } from '../dialects/dialects.ts'
import { inBandFault, isInBandError } from '../dialects/in-band.ts'
import { afterServerTool, judge, type RequiredParameters, type Verdict } from '../dialects/proof.ts'
import type {
  AnswerDecoder,
  PartHandler,
  ReadAnswer,
  StreamPosition,
  TextPart,
  ToolPart,
} from '../dialects/read-answer.ts'
import { wholeJson } from '../dialects/whole-answer.ts'
import { type JsonObject, parsedOr } from '../lib/json.ts'
import { parsedBytes } from '../lib/json-fields.ts'
import type { PrefixGate } from '../machine/prefix-gate.ts'
import type { Attempt, AttemptEnd, AttemptReader, AttemptRequest, AttemptTrace, ReadState, Refusal } from './attempt.ts'
import { BackgroundResponse } from './background.ts'
import { outputLimitIn } from './output-limit.ts'
import { startAttempt } from './start-attempt.ts'
import { NO_USAGE, usageOf } from './usage.ts'

/** What is asked, of whom, and what a complete answer needs. */
export type AttemptPlan = {
  readonly api: RelayApiName
  readonly model: string
  readonly baseUrl: string
  readonly profile: ChosenProfile
  /** Built once the attempt runs, and a second time if the server names the limit that it takes. May throw. */
  readonly request: (maxTokens?: number) => AttemptRequest
  /** The caller set no number of tokens, so another number will do. */
  readonly isLimitOpen?: boolean
  /** The provider keeps generating without a connection, so the rest is read after a break. */
  readonly isBackground: boolean
  /** It continues kept text. */
  readonly resumed: boolean
  /** Knows how the answer has to begin. */
  readonly gate: PrefixGate
  /** All frames are parsed, because some have to be changed. */
  readonly everyJson: boolean
  readonly choices: number
  readonly nextPartId: () => string
  readonly required: RequiredParameters
  readonly maxTokens: number | undefined
  /** The body of the request, parsed only for an answer that is in doubt. Undefined if it is too large for that. */
  readonly asked: () => JsonObject | undefined
  readonly empty?: 'ask-again' | 'accept'
  /** No other attempt may follow, so an answer in doubt is the answer. */
  readonly isLast?: boolean
  /** Of the attempt before this one. */
  readonly lastFault: FaultReport | null
  readonly policy: Policy
  readonly signal: AbortSignal
  readonly now: () => number
  /** For an answer that comes in one piece, and the large frame that the decoder has. */
  readonly memory: MemoryShare
  readonly trace: AttemptTrace
  /** Called when the model has said something more. */
  readonly onProgress?: (() => void) | undefined
  readonly onBytes?: (() => void) | undefined
}

/** Where the answer goes. What a function of it throws ends the attempt. */
export type AnswerSink = {
  /** The answer was asked for in one piece. */
  readonly prefersWhole?: boolean
  /** Its reader is behind: a connection that is made now is paused. */
  readonly isFull?: boolean
  /** What went out cannot be taken back. */
  readonly isCommitted?: boolean
  /** An answer that was filtered is complete: the client gets it as its API reports it. */
  readonly takesFiltered?: boolean
  head?(status: number, headers: IncomingHttpHeaders): void
  /** The decoder reads a frame now. */
  next?(): void
  /** `fresh` is the part of this text that goes beyond what is known. */
  text(part: TextPart, fresh: string, text: string): void
  tool(part: ToolPart): void
  /** The decoder has read it. */
  frame?(frame: SseFrame, attempt: AnswerAttempt): void
  /** May take several frames at once, from `from` on. Returns the end of the last one. */
  frames?(read: SseRead, from: number, attempt: AnswerAttempt): number
  comment?(text: string): void
  /** All frames of one read were handed over. Resolves once the reader has caught up, if it is behind. */
  flush?(): Promise<void> | undefined
  /** The answer came in one piece. */
  whole?(body: Buffer, json: JsonObject): void
  /** The answer is complete, but probably not what the model meant. */
  doubt?(doubt: Doubt): void
  /** The answer is complete. */
  release?(): void
}

/** A frame up to this size is parsed without asking for room: nearly all are much smaller. */
const UNCOUNTED_CHARS = 64 * 1024

export class AnswerAttempt implements AttemptReader, PartHandler {
  readonly plan: AttemptPlan
  readonly decoder: AnswerDecoder
  readonly memory: MemoryShare
  readonly onBytes: (() => void) | undefined
  readonly prefersWhole: boolean
  /** The answer did not begin as it had to. */
  diverged = false
  /** The frame in which the server reported an error. */
  errorFrame: SseFrame | undefined
  readonly #sink: AnswerSink
  readonly #dialect: Dialect
  readonly #startedAt: string
  #running: Pick<Attempt, 'pause' | 'resume'> | undefined
  #end: AttemptEnd | undefined
  #reattached = 0
  /** Progress that was reported. */
  #reported = 0
  /** Taken for the frame that the decoder has: it keeps what it parsed last. */
  #frameBytes = 0
  /** The sink could not take a frame: to read on after it would leave it out. */
  #isUnfit = false
  #proven: Extract<Verdict, { complete: true }> | undefined
  /** The answer is complete, but what was held back of it does not fit what the reader has. */
  #misfit: Fault | undefined

  constructor(plan: AttemptPlan, sink: AnswerSink) {
    this.plan = plan
    this.#sink = sink
    this.memory = plan.memory
    this.onBytes = plan.onBytes
    this.prefersWhole = sink.prefersWhole === true
    this.#startedAt = new Date(plan.now()).toISOString()
    this.#dialect = dialectOf(plan.api)
    this.decoder = this.#dialect.decoder(this, plan.nextPartId, plan)
    this.decoder.answer.keepsVisible = plan.required.size > 0
    this.decoder.answer.isMeant = plan.resumed
  }

  async run(): Promise<Verdict> {
    const { signal, isLimitOpen = false, isBackground } = this.plan
    try {
      let request = this.plan.request()
      let end = await this.#read(request)
      const limit = isLimitOpen ? outputLimitIn(end.refusal) : undefined
      if (limit !== undefined) end = await this.#read((request = this.plan.request(limit)))
      const verdict = this.#judge(end)
      return verdict.complete || !isBackground ? verdict : await this.#readOn(verdict, request.headers)
    } catch (thrown) {
      return failed(classify(thrown, { boundary: 'model', phase: 'connect', signal }))
    }
  }

  pause(): void {
    this.#running?.pause()
  }

  resume(): void {
    this.#running?.resume()
  }

  // ---- what is known of it ----

  get answer(): ReadAnswer {
    return this.decoder.answer
  }

  get progress(): number {
    return this.decoder.answer.progress
  }

  get refusal(): Refusal | undefined {
    return this.#end?.refusal
  }

  /** A refusal came with the headers; its body is not an answer. */
  get phase(): AttemptPhase {
    return this.refusal === undefined ? (this.#end?.phase ?? 'connect') : 'headers'
  }

  /** A request that was refused or never sent costs nothing. What a server used before it failed is unknown. */
  get usage(): Usage {
    const status = this.refusal?.status
    const isUnseen = this.#end === undefined || this.#end.phase === 'connect' || (status !== undefined && status < 500)
    return isUnseen ? NO_USAGE : usageOf(this.answer)
  }

  record(fault: FaultReport | null, action: AttemptRecord['action'], delayMs: number): AttemptRecord {
    const { model, baseUrl, resumed, trace } = this.plan
    const { durationMs = 0, bytes = 0 } = this.#end ?? {}
    const reattached = this.#reattached === 0 ? (this.#end?.reattached ?? 0) : this.#reattached
    return {
      attempt: trace.attempt,
      model,
      baseUrl,
      startedAt: this.#startedAt,
      resumed,
      usage: this.usage,
      fault,
      action,
      delayMs,
      durationMs: Math.round(durationMs),
      phase: this.phase,
      bytes,
      ...(reattached > 0 ? { reattached } : {}),
    }
  }

  // ---- what the transport calls ----

  head(status: number, headers: IncomingHttpHeaders): void {
    this.#sink.head?.(status, headers)
  }

  frame(frame: SseFrame): ReadState {
    if (this.prefersWhole) throw streamedUnasked()
    this.#makeRoom(frame)
    this.#sink.next?.()
    try {
      this.decoder.frame(frame)
    } catch (thrown) {
      if (isFault(thrown) && this.decoder.json !== undefined && !this.diverged) this.errorFrame = frame
      throw thrown
    }
    try {
      this.#sink.frame?.(frame, this)
    } catch (thrown) {
      this.#isUnfit = true
      throw thrown
    }
    const { ended, finish } = this.answer
    return ended ? 'ended' : finish !== null ? 'finished' : 'more'
  }

  frames(read: SseRead, from: number): number {
    return this.#sink.frames?.(read, from, this) ?? from
  }

  comment(text: string): void {
    this.#sink.comment?.(text)
  }

  flush(): void {
    if (this.progress !== this.#reported) this.plan.onProgress?.()
    this.#reported = this.progress
    const caughtUp = this.#sink.flush?.()
    if (caughtUp === undefined) return
    this.pause()
    void caughtUp.then(() => this.resume())
  }

  /** A sink of frames gets those that the server should have sent. */
  whole(body: Buffer, contentType: string): void {
    const json = wholeJson(body, contentType, this.memory)
    this.#sink.whole?.(body, json)
    if (this.#sink.frame === undefined) this.decoder.whole(json)
    else if (isInBandError(json)) throw inBandFault(json)
    else for (const frame of this.#dialect.framesOf(json)) this.frame(frame)
    this.flush()
  }

  // ---- what the decoder calls ----

  text(part: TextPart, text: string): void {
    const { gate } = this.plan
    const isItem = part.kind === 'reasoning' && this.#dialect.reasoning === 'item' // no other attempt has to repeat it
    const fresh = gate.isOpen || isItem ? text : gate.push(part.isRefusal ? 'refusal' : part.kind, text)
    if (fresh === undefined) throw this.divergence() // I2
    this.#sink.text(part, fresh, text)
  }

  tool(part: ToolPart): void {
    this.mustBeOpen()
    this.#sink.tool(part)
  }

  // ---- what a sink of frames asks ----

  get isProven(): boolean {
    return this.#proven !== undefined
  }

  /** Not where the last word may be the count of tokens, which comes after the reason. */
  get isProvableByReason(): boolean {
    const { maxTokens, profile } = this.plan
    return this.#dialect.proof === 'finish_reason' && (maxTokens === undefined || profile.lengthIsVisible)
  }

  /** The answer says that it is over. It is released if it is complete, and fails before any of its end goes out if not. */
  prove(): void {
    if (this.#proven !== undefined) return
    const verdict = this.#verdict()
    if (!verdict.complete) throw verdict.fault
    this.#proven = verdict
    this.#misfit = this.#release()
    if (this.#misfit !== undefined) throw this.#misfit
  }

  /** What is known comes before anything else. */
  mustBeOpen(): void {
    if (!this.plan.gate.isOpen) throw this.divergence() // I2
  }

  divergence(): Fault {
    this.diverged = true
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: this.plan.resumed
        ? 'the server did not continue the unfinished text'
        : 'the answer was asked for again and did not start with what had been sent already',
    })
  }

  // ---- what a background response asks ----

  get position(): StreamPosition | undefined {
    return this.decoder.position
  }

  /** Neither the server nor a comparison said that this answer is of no use. */
  get isOnlyCut(): boolean {
    return this.errorFrame === undefined && !this.diverged && !this.#isUnfit && !this.answer.ended
  }

  reading(connection: Pick<Attempt, 'pause' | 'resume'>): void {
    this.#running = connection
    if (this.#sink.isFull === true) connection.pause()
  }

  endedWith(end: AttemptEnd): Verdict {
    return this.#judge(end)
  }

  /** The events are gone, but the whole answer is there. */
  finishedBy(frames: readonly SseFrame[]): Verdict {
    const fault = faultOf(() => {
      for (const frame of frames) this.frame(frame)
      this.flush()
    })
    const { phase, bytes, durationMs } = this.#end ?? { phase: 'stream', bytes: 0, durationMs: 0 }
    return fault === undefined
      ? this.#judge({ phase, bytes, durationMs, fault, refusal: undefined, reattached: 0 })
      : failed(fault)
  }

  // ---- details ----

  async #read(request: AttemptRequest): Promise<AttemptEnd> {
    const { policy, signal, trace } = this.plan
    const running = startAttempt({ ...request, trace }, this, policy, signal)
    this.reading(running)
    this.#end = await running.end
    return this.#end
  }

  async #readOn(broken: Verdict, headers: AttemptRequest['headers']): Promise<Verdict> {
    const background = new BackgroundResponse({ ...this.plan, headers })
    const { verdict, times } = await background.readOn(broken, this)
    this.#reattached += times
    return verdict
  }

  /** The room of the frame before is free again. */
  #makeRoom({ data }: SseFrame): void {
    if (this.#frameBytes === 0 && data.length <= UNCOUNTED_CHARS) return
    this.memory.give(this.#frameBytes)
    this.#frameBytes = 0
    const bytes = data.length > UNCOUNTED_CHARS ? parsedBytes(data) : 0
    taking(this.memory)(bytes)
    this.#frameBytes = bytes
  }

  #judge(end: AttemptEnd): Verdict {
    const { signal, now, baseUrl, gate } = this.plan
    if (end.refusal !== undefined) return failed(refusalFault(end.refusal, signal, now(), baseUrl))
    // A caller that aborted gets no answer, however far it had come.
    if (end.fault !== undefined && signal.aborted) return failed(end.fault)
    if (end.fault === undefined) this.decoder.close?.()
    const { ended, finish } = this.answer
    if (this.#dialect.proof === 'body_end' && ended && !gate.isOpen) return failed(this.divergence())
    if (this.#proven !== undefined && (ended || finish !== null))
      // unless another choice began after it
      return this.#misfit === undefined ? this.#proven : failed(this.#misfit)
    const verdict = this.#verdict(end.fault)
    if (!verdict.complete) return failed(afterServerTool(verdict.fault, this.answer))
    if (!gate.isOpen) return failed(this.divergence())
    const misfit = this.#release()
    return misfit === undefined ? verdict : failed(misfit)
  }

  #verdict(broken?: Fault): Verdict {
    const { profile, required, isLast } = this.plan
    const isCommitted = this.#sink.isCommitted === true || isLast === true
    const verdict = judge(this.answer, this.#dialect, profile, required, { ...this.plan, broken, isCommitted })
    if (verdict.complete && verdict.doubt !== undefined) this.#sink.doubt?.(verdict.doubt)
    if (verdict.complete || verdict.fault === broken || this.#sink.takesFiltered !== true) return verdict
    return verdict.fault.category === 'model_content_filtered' ? FILTERED : verdict
  }

  #release(): Fault | undefined {
    return faultOf(() => this.#sink.release?.())
  }
}

const FILTERED = { complete: true, proven: true, finish: 'content_filter', calls: [] } as const satisfies Verdict

const failed = (fault: Fault): Verdict => ({ complete: false, fault })

/** The fault that this throws, if it does. */
function faultOf(work: () => void): Fault | undefined {
  try {
    work()
    return undefined
  } catch (thrown) {
    if (isFault(thrown)) return thrown
    throw thrown
  }
}

const streamedUnasked = (): Fault =>
  new Fault('model_server_error', {
    phase: 'stream',
    facts: { detail: 'it streamed an answer that was asked for in one piece' },
  })

/** What a response with a status other than 2xx means. */
const refusalFault = ({ status, headers, body }: Refusal, signal: AbortSignal, now: number, address: string): Fault =>
  classify(undefined, {
    boundary: 'model',
    phase: 'headers',
    signal,
    address,
    now,
    response: { status, headers, body: parsedOr(body.toString('utf8')) },
  })
