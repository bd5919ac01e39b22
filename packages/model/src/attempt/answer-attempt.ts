/** One attempt at an answer: reads the stream, shows its parts as they grow, and judges the result. Its caller decides what follows. */
import { randomUUID } from 'node:crypto'
import { classify, Fault, type FaultReport, isFault, type Policy } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import type { AttemptRecord, CallTrace, ProgressEvent, Usage } from '../contract/answer.ts'
import type { RungAction } from '../machine/next-rung.ts'
import type { Attempt, AttemptEnd, AttemptRequest, ReadState } from './attempt.ts'
import { type BackgroundReader, BackgroundResponse } from './background.ts'
import { FrameRoom } from './frame-room.ts'
import { withReplay } from './replay.ts'
import { startAttempt } from './start-attempt.ts'
import { monotonicMs } from '../lib/clock.ts'
import { dialectOf, DIALECTS } from '../dialects/dialects.ts'
import { MemoryBudget } from '@breakfall/wire/node'
import { continuationGate, prefillOf } from '../machine/kept-text.ts'
import { PrefixGate } from '../machine/prefix-gate.ts'
import type { MachineEvent } from '../machine/reduce-answer.ts'
import type { ShownPart } from '../machine/state.ts'
import type {
  AnswerDecoder,
  PartHandler,
  ReadAnswer,
  StreamPosition,
  TextPart,
  ToolPart,
} from '../dialects/read-answer.ts'
import { afterServerTool, judge, type Verdict } from '../dialects/proof.ts'
import { outputLimitIn } from './output-limit.ts'
import { refusalFault } from './refusal.ts'
import { attemptRequest, isBackground, requiredParameters, takesPrefill, type Target } from './target.ts'
import { attemptUsage, phaseOf, recordOf } from './ledger.ts'
import { NO_USAGE } from './usage.ts'
import { wholeJson } from '../dialects/whole-answer.ts'

export type AnswerAttemptOptions = {
  readonly attempt: number
  readonly target: Target
  /** The text to continue; empty to ask for the whole answer. */
  readonly kept: string
  readonly policy: Policy
  readonly signal: AbortSignal
  readonly now: () => number
  readonly nextPartId: () => string
  readonly events: ProgressQueue
  readonly onBytes?: (() => void) | undefined
  /** The attempt before this one was complete and held nothing: so may this one. */
  readonly emptyBefore?: boolean | undefined
  readonly trace?: CallTrace | undefined
}

export type ProgressQueue = {
  push(event: ProgressEvent): void
  /** The event pushed last, if the consumer has not taken it yet. */
  readonly last: unknown
  readonly isFull: boolean
}

export type AttemptResult =
  | { readonly complete: true; readonly finish: string; readonly proven: boolean }
  /** `diverged`: it was asked to continue kept text, and did not. */
  | { readonly complete: false; readonly fault: Fault; readonly diverged: boolean; readonly contentStarted: boolean }

/** Of all answers that this process asks for itself, such as those of a daemon's sessions. */
export const clientMemory = new MemoryBudget(192 * 1024 * 1024)

const DRAFT_MS = 1_000 // between two drafts of one call
const DELTA_CHARS_MAX = 4_096

export class AnswerAttempt implements BackgroundReader<Verdict>, PartHandler {
  readonly target: Target
  readonly result: Promise<AttemptResult>
  /** The attempt continues kept text. */
  readonly resumed: boolean
  readonly onBytes: (() => void) | undefined
  /** Of an answer that comes in one piece, and of the large frame that the decoder has. */
  readonly memory = clientMemory.open()
  readonly #room = new FrameRoom(this.memory)
  readonly #options: AnswerAttemptOptions
  readonly #decoder: AnswerDecoder
  readonly #gate: PrefixGate
  readonly #startedAt: string
  readonly #keepsText: boolean
  readonly #shown = new Map<string, ShownDelta>()
  #running: Attempt | undefined
  #end: AttemptEnd | undefined
  #usage: Usage = NO_USAGE
  #diverged = false
  /** The server said that this answer failed, or what it said makes no sense. */
  #isRefused = false
  #reattached = 0
  /** The progress that the trace knows. */
  #flushed = 0
  #lastShown: ShownDelta | undefined
  #lastDelta: TextDelta | undefined
  readonly #drafts = new Map<string, number>()

  constructor(options: AnswerAttemptOptions) {
    const { target, kept } = options
    this.#options = options
    this.target = target
    this.onBytes = options.onBytes
    this.resumed = kept !== ''
    this.#keepsText = takesPrefill(target)
    this.#gate = this.resumed ? continuationGate(kept, target.profile.prefillEcho) : new PrefixGate([])
    this.#startedAt = new Date(options.now()).toISOString()
    this.#decoder = dialectOf(target.api).decoder(this, options.nextPartId, {
      everyJson: false,
      choices: 1,
      profile: target.profile,
    })
    const { model, baseUrl } = target.request
    options.events.push({ type: 'attempt-start', attempt: options.attempt, model, baseUrl })
    this.result = this.#run()
  }

  get progress(): number {
    return this.#answer.progress
  }

  pause(): void {
    this.#running?.pause()
  }

  resume(): void {
    this.#running?.resume()
  }

  // ---- what the transport calls ----

  frame(frame: SseFrame): ReadState {
    try {
      this.#room.make(frame)
      this.#decoder.frame(frame)
    } catch (thrown) {
      this.#isRefused = true
      throw thrown
    }
    const { ended, finish } = this.#answer
    return ended ? 'ended' : finish !== null ? 'finished' : 'more'
  }

  flush(): void {
    if (this.progress === this.#flushed) return
    this.#flushed = this.progress
    this.#options.trace?.chunk?.()
  }

  whole(body: Buffer, contentType: string): void {
    this.#decoder.whole(wholeJson(body, contentType, this.memory))
    this.flush()
  }

  // ---- what the decoder calls ----

  text(part: TextPart, text: string): void {
    const fresh = this.#gate.isOpen ? text : this.#gate.push(part.kind, text)
    if (fresh === undefined) throw this.#divergence()
    if (fresh === '') return
    const shown = this.#shownAs(part)
    if (part.kind === 'text' && this.#keepsText) shown.text += fresh
    this.#emitText(part, fresh)
  }

  tool(part: ToolPart): void {
    if (!this.#gate.isOpen) throw this.#divergence()
    const { attempt, events } = this.#options
    const now = monotonicMs()
    const last = this.#drafts.get(part.id)
    if (last !== undefined && now - last < DRAFT_MS) return
    this.#drafts.set(part.id, now)
    events.push({
      type: 'tool-draft',
      attempt,
      part: part.id,
      tool: part.tool,
      argumentsBytes: Buffer.byteLength(part.arguments),
    })
  }

  // ---- what a background response calls ----

  get position(): StreamPosition | undefined {
    return this.#decoder.position
  }

  get isOnlyCut(): boolean {
    return !this.#isRefused && !this.#diverged && !this.#answer.ended
  }

  isDone(verdict: Verdict): boolean {
    return verdict.complete
  }

  reading(connection: Attempt): void {
    this.#running = connection
    if (this.#options.events.isFull) connection.pause()
  }

  endedWith(end: AttemptEnd): Verdict {
    return this.#judge(end)
  }

  finishedBy(frames: readonly SseFrame[]): Verdict {
    try {
      for (const frame of frames) this.frame(frame)
      this.flush()
    } catch (thrown) {
      if (isFault(thrown)) return { complete: false, fault: thrown }
      throw thrown
    }
    const { phase, bytes, durationMs } = this.#end ?? { phase: 'stream', bytes: 0, durationMs: 0 }
    return this.#judge({ phase, bytes, durationMs, fault: undefined, refusal: undefined, reattached: 0 })
  }

  // ---- the result ----

  /** What it has shown. Has its text only if that can be continued: answers can be long. */
  get shown(): MachineEvent {
    const { attempt } = this.#options
    const texts = [...this.#shown.values()].map(({ type, part, text }): ShownPart => {
      return { attempt, part, kind: type === 'text-delta' ? 'text' : 'reasoning', text }
    })
    const drafts = [...this.#drafts.keys()].map((part): ShownPart => ({ attempt, part, kind: 'tool', text: '' }))
    return { type: 'parts-shown', attempt, parts: [...texts, ...drafts] }
  }

  record(fault: FaultReport | null, action: RungAction | null, delayMs: number): AttemptRecord {
    const { attempt, target } = this.#options
    const kept = recordOf({
      attempt,
      model: target.request.model,
      baseUrl: target.request.baseUrl,
      startedAt: this.#startedAt,
      end: this.#end,
      resumed: this.resumed,
      usage: this.#usage,
      fault,
      action,
      delayMs,
    })
    return this.#reattached === 0 ? kept : { ...kept, reattached: this.#reattached }
  }

  #shownAs(part: TextPart): ShownDelta {
    if (this.#lastShown?.part === part.id) return this.#lastShown
    const type = part.kind === 'text' ? 'text-delta' : 'reasoning-delta'
    const shown = this.#shown.get(part.id) ?? { type, attempt: this.#options.attempt, part: part.id, text: '' }
    this.#shown.set(part.id, shown)
    this.#lastShown = shown
    this.#lastDelta = undefined
    return shown
  }

  /** Text that came in one read of the socket is one event, so a consumer that is behind gets fewer and longer ones. */
  #emitText(part: TextPart, text: string): void {
    const { attempt, events } = this.#options
    const held = this.#lastDelta
    if (held !== undefined && events.last === held && held.text.length < DELTA_CHARS_MAX) {
      held.text += text
      return
    }
    const type = part.kind === 'text' ? 'text-delta' : 'reasoning-delta'
    const delta: TextDelta = { type, attempt, part: part.id, text }
    this.#lastDelta = delta
    events.push(delta)
  }

  async #run(): Promise<AttemptResult> {
    const { attempt, events } = this.#options
    const verdict = await this.#verdict().finally(() => this.memory.close())
    this.#usage = attemptUsage(this.#end, this.#answer)
    if (phaseOf(this.#end) === 'stream') events.push({ type: 'usage', attempt, usage: this.#usage })
    if (!verdict.complete)
      return { complete: false, fault: verdict.fault, diverged: this.#diverged, contentStarted: this.progress > 0 }
    this.#release(verdict.calls)
    return { complete: true, finish: verdict.finish, proven: verdict.proven }
  }

  async #verdict(): Promise<Verdict> {
    const { signal, target } = this.#options
    try {
      const { request } = target
      let sent = await this.#send(target)
      const limit = request.maxTokens === undefined ? outputLimitIn(sent.end.refusal) : undefined
      // Nobody set the number that the server refuses, and it says which one it takes.
      if (limit !== undefined) sent = await this.#send({ ...target, request: { ...request, maxTokens: limit } })
      const verdict = this.#judge(sent.end)
      return verdict.complete || !isBackground(target) ? verdict : await this.#readOn(verdict, sent.headers)
    } catch (thrown) {
      return { complete: false, fault: classify(thrown, { boundary: 'model', phase: 'connect', signal }) }
    }
  }

  async #send(target: Target): Promise<{ readonly end: AttemptEnd; readonly headers: AttemptRequest['headers'] }> {
    const { attempt, kept, policy, signal, trace } = this.#options
    const plain = attemptRequest(target, prefillOf(kept))
    const replayed = withReplay(plain, target.request.baseUrl, target.profile)
    const { traceparent, backoffMs } = trace ?? {}
    const request = { ...replayed, trace: { traceparent, backoffMs, attempt } }
    this.#running = startAttempt(request, this, policy, signal)
    if (this.#options.events.isFull) this.pause()
    this.#end = await this.#running.end
    return { end: this.#end, headers: plain.headers }
  }

  async #readOn(broken: Verdict, headers: AttemptRequest['headers']): Promise<Verdict> {
    const { policy, signal, now, target } = this.#options
    const background = new BackgroundResponse({
      baseUrl: target.request.baseUrl,
      headers,
      policy,
      signal,
      now,
      memory: this.memory,
    })
    const { result, times } = await background.readOn(broken, this)
    this.#reattached += times
    return result
  }

  #release(calls: Extract<Verdict, { complete: true }>['calls']): void {
    const { attempt, events } = this.#options
    const used = new Set<string>()
    for (const { part, arguments: args } of calls) {
      const callId = part.callId === '' || used.has(part.callId) ? `call_${randomUUID()}` : part.callId
      used.add(callId)
      events.push({ type: 'tool-call', attempt, part: part.id, callId, tool: part.tool, arguments: args })
    }
  }

  #judge(end: AttemptEnd): Verdict {
    const { signal, now, emptyBefore = false } = this.#options
    const { api, profile, request } = this.target
    if (end.refusal !== undefined) {
      const fault = refusalFault(end.refusal, signal, now(), request.baseUrl)
      return { complete: false, fault }
    }
    // A caller that aborted gets no answer, however far it had come.
    if (end.fault !== undefined && signal.aborted) return { complete: false, fault: end.fault }
    const required = requiredParameters(request)
    const asked = { broken: end.fault, emptyBefore, maxTokens: request.maxTokens }
    const verdict = judge(this.#answer, DIALECTS[api], profile, required, asked)
    if (!verdict.complete) return { complete: false, fault: afterServerTool(verdict.fault, this.#answer) }
    if (!this.#gate.isOpen) return { complete: false, fault: this.#divergence() }
    return verdict
  }

  get #answer(): ReadAnswer {
    return this.#decoder.answer
  }

  #divergence(): Fault {
    this.#diverged = true
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: 'the server did not continue the unfinished text',
    })
  }
}

type TextDelta = Extract<ProgressEvent, { type: 'text-delta' | 'reasoning-delta' }>
type ShownDelta = { readonly type: TextDelta['type']; readonly attempt: number; readonly part: string; text: string }
