/** One attempt of a relayed stream: reads frames, drops what the client already has, and judges the answer. */
import type { IncomingHttpHeaders } from 'node:http'
import { classify, Fault, type FaultReport, isFault } from '@breakfall/faults'
import type { SseFrame, SseRead } from '@breakfall/wire'
import type { AttemptRecord } from '../contract/answer.ts'
import type { RungAction } from '../machine/next-rung.ts'
import type { Attempt, AttemptEnd, ReadState, Refusal } from '../attempt/attempt.ts'
import { type BackgroundReader, BackgroundResponse } from '../attempt/background.ts'
import { FrameRoom } from '../attempt/frame-room.ts'
import { withReplay } from '../attempt/replay.ts'
import { startAttempt } from '../attempt/start-attempt.ts'
import type { ClientStream } from './client-stream.ts'
import type { Dialect } from '../dialects/dialect.ts'
import { DIALECTS } from '../dialects/dialects.ts'
import { inBandFault, isInBandError } from '../dialects/in-band.ts'
import { attemptUsage, recordOf } from '../attempt/ledger.ts'
import {
  type AnswerDecoder,
  type FrameKind,
  partCounter,
  type PartHandler,
  type ReadAnswer,
  type StreamPosition,
  type TextPart,
} from '../dialects/read-answer.ts'
import { type PrefixGate, type Segment, type SegmentKind } from '../machine/prefix-gate.ts'
import { afterServerTool, judge, type RequiredParameters, type Verdict } from '../dialects/proof.ts'
import { refusalFault } from '../attempt/refusal.ts'
import type { RelayRequest, RelayTarget, ResolvedRelayOptions } from './relay.ts'
import { choicesAsked, isBackground, modelOf, profileOf, upstreamHeaders, upstreamRequest } from './relay-request.ts'
import type { AttemptTrace } from '../attempt/attempt.ts'
import { wholeJson } from '../dialects/whole-answer.ts'
import type { MemoryShare } from '@breakfall/wire/node'
import { objectOr } from '../lib/json.ts'

export type RelayAttemptOptions = {
  readonly trace: AttemptTrace
  readonly request: RelayRequest
  readonly target: RelayTarget
  readonly client: ClientStream
  readonly required: RequiredParameters
  readonly maxTokens: number | undefined
  /** The text to continue; empty to ask for the whole answer. */
  readonly prefill: string
  readonly gate: PrefixGate
  /** The attempt before this one was complete and held nothing: so may this one. */
  readonly emptyBefore: boolean
  readonly options: ResolvedRelayOptions
}

/** What a frame says, as the decoder hands it on. */
type FrameSaid = {
  kind: FrameKind
  texts: readonly Segment[]
  /** Of an attempt that heals: the new part of each text. */
  readonly fresh: string[]
  /** One of them is not all of its text. */
  isPartial: boolean
}

const NO_TEXTS: readonly Segment[] = []
const nothingSaid = (): FrameSaid => ({ kind: 'lifecycle', texts: NO_TEXTS, fresh: [], isPartial: false })

export class RelayAttempt implements BackgroundReader<Fault | undefined>, PartHandler {
  /** The answer did not start with what the client holds. */
  diverged = false
  refusal: Refusal | undefined
  /** The frame in which the server reported an error. */
  errorFrame: SseFrame | undefined
  readonly #with: RelayAttemptOptions
  readonly #dialect: Dialect
  readonly #decoder: AnswerDecoder
  readonly #startedAt: string
  #running: Pick<Attempt, 'pause' | 'resume'> | undefined
  #reattached = 0
  /** The progress that the trace knows. */
  #flushed = 0
  #end: AttemptEnd | undefined
  #isWhole = false
  /** A frame could not go to the client: to read on after it would leave it out. */
  #isUnfit = false
  /** The answer is complete, but what was held back of it does not fit what the client holds. */
  #misfit: Fault | undefined
  #said = nothingSaid()
  /** The client holds a part of the answer from an earlier attempt. */
  readonly #isHealing: boolean

  /** Of an answer that comes in one piece, and of the large frame that the decoder has. */
  readonly memory: MemoryShare
  readonly #room: FrameRoom

  constructor(options: RelayAttemptOptions) {
    this.#with = options
    this.memory = options.options.memory.part()
    this.#room = new FrameRoom(this.memory)
    this.#startedAt = new Date(options.options.now()).toISOString()
    this.#isHealing = options.client.contentSent
    this.#dialect = DIALECTS[options.request.api]
    // Frames are changed on their way through when healing, so all of them have to be parsed.
    this.#decoder = this.#dialect.decoder(this, partCounter(), {
      everyJson: this.#isHealing,
      choices: choicesAsked(options.request.json),
      profile: profileOf(options.target),
    })
  }

  get progress(): number {
    return this.#answer.progress
  }

  /** The client asked for token counts, and the stream broke before they came. */
  get lacksUsage(): boolean {
    const { ended, usage } = this.#answer
    const asked = objectOr(this.#with.request.json['stream_options'])['include_usage'] === true
    return asked && !ended && usage.output === undefined
  }

  get resumed(): boolean {
    return this.#with.prefill !== ''
  }

  /** The fault, or undefined if the answer is complete and on its way. */
  async run(): Promise<Fault | undefined> {
    const { client, request, target, prefill, options } = this.#with
    client.begin()
    try {
      const { policy, signal } = options
      const plain = upstreamRequest(request, target, prefill)
      const sent = { ...withReplay(plain, target.baseUrl, profileOf(target)), trace: this.#with.trace }
      const running = startAttempt(sent, this, policy, signal)
      this.#running = running
      this.#end = await running.end
      const fault = this.#judgeEnd(this.#end)
      return fault !== undefined && isBackground(request, target) ? await this.#readOn(fault) : fault
    } catch (thrown) {
      return classify(thrown, { boundary: 'model', phase: 'connect', signal: options.signal })
    } finally {
      this.memory.close()
    }
  }

  async #readOn(broken: Fault): Promise<Fault | undefined> {
    const { request, target, options } = this.#with
    const { policy, signal, now } = options
    const headers = upstreamHeaders(request.headers, target)
    const background = new BackgroundResponse({
      baseUrl: target.baseUrl,
      headers,
      policy,
      signal,
      now,
      memory: this.memory,
    })
    const { result, times } = await background.readOn<Fault | undefined>(broken, this)
    this.#reattached += times
    return result
  }

  // ---- what a background response calls ----

  get position(): StreamPosition | undefined {
    return this.#decoder.position
  }

  get isOnlyCut(): boolean {
    return this.errorFrame === undefined && !this.diverged && !this.#isUnfit && !this.#answer.ended
  }

  isDone(result: Fault | undefined): boolean {
    return result === undefined
  }

  reading(connection: Pick<Attempt, 'pause' | 'resume'>): void {
    this.#running = connection
  }

  endedWith(end: AttemptEnd): Fault | undefined {
    return this.#judgeEnd(end)
  }

  finishedBy(frames: readonly SseFrame[]): Fault | undefined {
    const fault = faultOf(() => {
      for (const frame of frames) this.frame(frame)
      this.flush()
    })
    return fault ?? (this.#isWhole ? undefined : incompleteRest())
  }

  record(fault: FaultReport | null, action: RungAction | null, delayMs: number): AttemptRecord {
    const { trace, request, target } = this.#with
    const kept = recordOf({
      attempt: trace.attempt,
      model: modelOf(request, target),
      baseUrl: target.baseUrl,
      startedAt: this.#startedAt,
      end: this.#end,
      resumed: this.resumed,
      usage: attemptUsage(this.#end, this.#answer),
      fault,
      action,
      delayMs,
    })
    return this.#reattached === 0 ? kept : { ...kept, reattached: this.#reattached }
  }

  // ---- what the transport calls ----

  head(_status: number, headers: IncomingHttpHeaders): void {
    this.#with.client.upstreamHead(headers)
  }

  frame(frame: SseFrame): ReadState {
    this.#room.make(frame)
    const said = this.#read(frame)
    if (this.#answer.choices > 1) {
      if (this.#isHealing) throw this.#divergence()
      this.#with.client.severalChoices()
    }
    try {
      this.#pass(frame, said)
    } catch (thrown) {
      this.#isUnfit = true
      throw thrown
    }
    const { ended, finish } = this.#answer
    return ended ? 'ended' : finish !== null ? 'finished' : 'more'
  }

  /** Frames that differ only in their text go through as one, unless they have to be compared with what the client holds. */
  frames(read: SseRead, from: number): number {
    const { ended, finish } = this.#answer
    if (this.#isHealing || !this.#with.gate.isOpen || ended || finish !== null) return from
    const said = (this.#said = nothingSaid())
    const run = this.#decoder.run?.(read.text, from)
    if (run === undefined) return from
    const source = { read, from, to: run.to, events: run.events }
    this.#pass({ event: nameAt(read.text, from), data: '', source }, said)
    return run.to
  }

  comment(text: string): void {
    this.#with.client.comment(text)
  }

  flush(): void {
    const { client, options } = this.#with
    if (this.progress !== this.#flushed) options.chat.chunk()
    this.#flushed = this.progress
    if (client.flush() && !client.hasBacklog) return
    this.#running?.pause()
    void this.#caughtUp().then(() => this.#running?.resume())
  }

  /** The client has taken what there is for it. Other streams have their turn in between. */
  async #caughtUp(): Promise<void> {
    const { client } = this.#with
    for (await client.drained(); client.hasBacklog; await client.drained()) {
      client.sendBacklog()
      client.flush()
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** The server answered in one piece although a stream was asked for: relays the frames it should have sent. */
  whole(body: Buffer, contentType: string): void {
    const json = wholeJson(body, contentType, this.memory)
    if (isInBandError(json)) throw inBandFault(json)
    for (const frame of this.#dialect.framesOf(json)) this.frame(frame)
    this.flush()
  }

  // ---- what the decoder calls ----

  text(part: TextPart, text: string): void {
    if (part.kind === 'reasoning' && this.#dialect.reasoning === 'item') return // no text that another attempt has to repeat
    const kind = part.isRefusal ? 'refusal' : part.kind
    const fresh = this.#with.gate.push(kind, text)
    if (fresh === undefined) throw this.#divergence()
    if (this.#isHealing) {
      this.#said.fresh.push(fresh)
      this.#with.client.shape.replayed?.(text)
    }
    this.#said.isPartial ||= fresh !== text
    if (fresh !== '') this.#add(kind, fresh)
  }

  tool(): void {
    this.#mustBeOpen()
    this.#said.kind = 'tool'
  }

  // ---- details ----

  #read(frame: SseFrame): FrameSaid {
    const said = (this.#said = nothingSaid())
    try {
      this.#decoder.frame(frame)
    } catch (thrown) {
      if (isFault(thrown) && this.#decoder.json !== undefined && !this.diverged) this.errorFrame = frame
      throw thrown
    }
    return said
  }

  #add(kind: SegmentKind, text: string): void {
    const said = this.#said
    if (said.kind === 'lifecycle') said.kind = 'content'
    // A frame may be held back with its texts, so each frame needs its own list.
    said.texts = said.texts === NO_TEXTS ? [{ kind, text }] : [...said.texts, { kind, text }]
  }

  #pass(frame: SseFrame, said: FrameSaid): void {
    const { client, gate } = this.#with
    const { json, frameKind } = this.#decoder
    const { ended, finish } = this.#answer
    const isTail = finish !== null || ended || this.#decoder.isTail === true
    let kind = frameKind ?? said.kind
    if (isTail || kind === 'tool') this.#mustBeOpen()
    if (kind === 'item' || kind === 'item-end') return this.#passItem(kind, frame)
    const saysNothingNew = said.isPartial && said.texts.length === 0 && !isTail
    // Each attempt starts with a frame that has only the role.
    const comesAgain = this.#isHealing && kind === 'lifecycle' && !isTail && this.#dialect.isOpening(json)
    if ((!gate.isOpen || saysNothingNew || comesAgain) && client.shape.skip(json)) return
    if (!gate.isOpen) kind = 'opening' // it waits until the beginning of the text is certain
    const isProvable = ended || (isTail && this.#isProvableByReason)
    if (isProvable && !this.#isWhole) this.#prove()
    if (kind === 'lifecycle' && this.#dialect.isBlockStart(json)) kind = 'opening'
    const fresh = said.isPartial ? said.fresh : undefined
    client.take(isTail && !this.#isWhole ? 'tail' : kind, frame, json, fresh, said.texts)
  }

  /** Not where the last word may be the count of tokens, which comes after the reason. */
  get #isProvableByReason(): boolean {
    const { target, maxTokens } = this.#with
    return this.#dialect.proof === 'finish_reason' && (maxTokens === undefined || profileOf(target).lengthIsVisible)
  }

  /** A separate item. It waits until the beginning of the text is certain. */
  #passItem(kind: 'item' | 'item-end', frame: SseFrame): void {
    const { client, gate } = this.#with
    client.take(gate.isOpen ? kind : 'opening', frame, this.#decoder.json, undefined, NO_TEXTS)
  }

  /** The answer says that it is over. It goes out if it is complete, else it fails before any of its end goes out. */
  #prove(): void {
    const { client } = this.#with
    const verdict = this.#verdict()
    // A filtered answer is final, and the client gets it as its API reports it.
    if (!verdict.complete && verdict.fault.category !== 'model_content_filtered') throw verdict.fault
    this.#isWhole = true
    this.#misfit = faultOf(() => client.release())
    if (this.#misfit !== undefined) throw this.#misfit
  }

  #judgeEnd(end: AttemptEnd): Fault | undefined {
    const { options, target, client } = this.#with
    if (end.refusal !== undefined) {
      this.refusal = end.refusal
      return refusalFault(end.refusal, options.signal, options.now(), target.baseUrl)
    }
    if (end.fault !== undefined && options.signal.aborted) return end.fault
    if (end.fault === undefined) this.#decoder.close?.()
    if (this.#dialect.proof === 'body_end' && this.#answer.ended) return faultOf(() => this.#proveAtEnd())
    const { ended, finish } = this.#answer
    if (this.#isWhole && (ended || finish !== null)) return this.#misfit // unless another choice began after it
    const verdict = this.#verdict(end.fault)
    if (!verdict.complete) return afterServerTool(verdict.fault, this.#answer)
    if (!this.#with.gate.isOpen) return this.#divergence()
    return faultOf(() => client.release()) // with a lenient profile, the end of the stream is enough
  }

  #verdict(broken?: Fault): Verdict {
    const { target, required, emptyBefore, maxTokens } = this.#with
    return judge(this.#answer, this.#dialect, profileOf(target), required, { broken, emptyBefore, maxTokens })
  }

  #proveAtEnd(): void {
    this.#mustBeOpen()
    this.#prove()
  }

  get #answer(): ReadAnswer {
    return this.#decoder.answer
  }

  /** Text that the client has comes before anything else. */
  #mustBeOpen(): void {
    if (!this.#with.gate.isOpen) throw this.#divergence()
  }

  #divergence(): Fault {
    this.diverged = true
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: 'the answer was asked for again and did not start with what had been sent already',
    })
  }
}

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

/** The name of the event that begins there. */
const nameAt = (text: string, from: number): string | undefined =>
  text.startsWith('event: ', from) ? text.slice(from + 'event: '.length, text.indexOf('\n', from)) : undefined

const incompleteRest = (): Fault =>
  new Fault('model_stream_incomplete', { phase: 'stream', errorRaw: 'the finished response is not complete' })
