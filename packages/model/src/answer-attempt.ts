/** One attempt at an answer: reads the stream, shows its parts as they grow, and judges what came of it. */
import { randomUUID } from 'node:crypto'
import { classify, Fault, type FaultReport, type Policy } from '@breakfall/faults'
import type { SseFrame } from '@breakfall/wire'
import type { AnswerEvent, AttemptPhase, AttemptRecord, FailedAction, Usage } from './answer.ts'
import { type Attempt, type AttemptEnd, type AttemptReader, type ReadState, startAttempt } from './attempt.ts'
import { monotonicMs } from './clock.ts'
import { createDecoder } from './decoder.ts'
import type { KeptText } from './kept-text.ts'
import type { AnswerDecoder, AnswerState, PartHandler, TextPart, ToolPart } from './parts.ts'
import type { PrefixGate } from './prefix-gate.ts'
import { judge, type Verdict } from './proof.ts'
import { refusalFault } from './refusal.ts'
import { attemptRequest, requiredParameters, type Target } from './target.ts'
import { attemptUsage, phaseOf, recordOf } from './ledger.ts'
import { NO_USAGE } from './usage.ts'
import { wholeJson } from './whole.ts'

export type AnswerAttemptOptions = {
  readonly attempt: number
  readonly target: Target
  readonly kept: KeptText
  readonly policy: Policy
  readonly signal: AbortSignal
  readonly now: () => number
  readonly nextPartId: () => string
  readonly emit: (event: AnswerEvent) => void
  readonly emitText: (type: 'text-delta' | 'reasoning-delta', part: string, text: string) => void
  /** A part was shown for the first time. */
  readonly shown: (part: string) => void
}

export type AttemptResult = { readonly phase: AttemptPhase; readonly verdict: Verdict; readonly usage: Usage }

const DRAFT_MS = 1_000 // between two drafts of one call

export class AnswerAttempt implements AttemptReader, PartHandler {
  readonly target: Target
  readonly result: Promise<AttemptResult>
  /** True where it went on from kept text. */
  readonly resumed: boolean
  /** True where the continuation did not begin where the kept text ends. */
  isMismatch = false
  /** The text that was shown, without an echo of what came before. */
  shownText = ''
  readonly #options: AnswerAttemptOptions
  readonly #decoder: AnswerDecoder
  readonly #gate: PrefixGate
  readonly #startedAt: string
  #running: Attempt | undefined
  #end: AttemptEnd | undefined
  #result: AttemptResult | undefined
  #lastShown: TextPart | undefined
  readonly #drafts = new Map<string, number>()

  constructor(options: AnswerAttemptOptions) {
    const { target, kept } = options
    this.#options = options
    this.target = target
    this.resumed = kept.prefill !== ''
    this.#gate = kept.gate(target.profile.prefillEcho)
    this.#startedAt = new Date(options.now()).toISOString()
    this.#decoder = createDecoder(target.api, this, options.nextPartId)
    this.result = this.#run()
  }

  get state(): AnswerState {
    return this.#decoder.state
  }

  get progress(): number {
    return this.state.progress
  }

  pause(): void {
    this.#running?.pause()
  }

  resume(): void {
    this.#running?.resume()
  }

  // ---- what the transport calls ----

  frame(frame: SseFrame): ReadState {
    this.#decoder.frame(frame)
    const { state } = this
    return state.ended ? 'ended' : state.finish !== null ? 'finished' : 'more'
  }

  whole(body: Buffer, contentType: string): void {
    this.#decoder.whole(wholeJson(body, contentType))
  }

  // ---- what the decoder calls ----

  text(part: TextPart, text: string): void {
    const fresh = this.#gate.isOpen ? text : this.#gate.push(part.kind, text)
    if (fresh === undefined) throw this.#mismatch()
    if (fresh === '') return
    const { emitText, shown } = this.#options
    if (this.#lastShown !== part) {
      this.#lastShown = part
      shown(part.id)
    }
    if (part.kind === 'text') this.shownText += fresh
    emitText(part.kind === 'text' ? 'text-delta' : 'reasoning-delta', part.id, fresh)
  }

  tool(part: ToolPart): void {
    if (!this.#gate.isOpen) this.#closeGate()
    const { attempt, emit, shown } = this.#options
    const now = monotonicMs()
    const last = this.#drafts.get(part.id)
    if (last === undefined) shown(part.id)
    else if (now - last < DRAFT_MS) return
    this.#drafts.set(part.id, now)
    emit({
      type: 'tool-draft',
      attempt,
      part: part.id,
      tool: part.tool,
      argumentsBytes: Buffer.byteLength(part.arguments),
    })
  }

  // ---- what came of it ----

  released(): readonly AnswerEvent[] {
    const verdict = this.#result?.verdict
    if (verdict?.complete !== true) return []
    const { attempt } = this.#options
    const used = new Set<string>()
    return verdict.calls.map(({ part, arguments: args }) => {
      const callId = part.callId === '' || used.has(part.callId) ? `call_${randomUUID()}` : part.callId
      used.add(callId)
      return { type: 'tool-call', attempt, part: part.id, callId, tool: part.tool, arguments: args }
    })
  }

  record(fault: FaultReport | null, action: FailedAction | null, delayMs: number): AttemptRecord {
    const { attempt, target } = this.#options
    return recordOf({
      attempt,
      model: target.request.model,
      baseUrl: target.request.baseUrl,
      startedAt: this.#startedAt,
      end: this.#end,
      resumed: this.resumed,
      usage: this.#result?.usage ?? NO_USAGE,
      fault,
      action,
      delayMs,
    })
  }

  async #run(): Promise<AttemptResult> {
    const { kept, policy, signal, target } = this.#options
    let verdict: Verdict
    try {
      this.#running = startAttempt(attemptRequest(target, kept.prefill), this, policy, signal)
      this.#end = await this.#running.end
      verdict = this.#judge(this.#end)
    } catch (thrown) {
      verdict = { complete: false, fault: classify(thrown, { boundary: 'model', phase: 'connect', signal }) }
    }
    this.#result = { phase: phaseOf(this.#end), verdict, usage: attemptUsage(this.#end, this.state) }
    return this.#result
  }

  #judge(end: AttemptEnd): Verdict {
    const { signal, now } = this.#options
    const { api, profile, request } = this.target
    if (end.refusal !== undefined) {
      const fault = refusalFault(end.refusal, signal, now(), request.baseUrl)
      return { complete: false, fault }
    }
    // Somebody who ended it does not get an answer, however far it had come.
    if (end.fault !== undefined && signal.aborted) return { complete: false, fault: end.fault }
    const verdict = judge(this.state, api, profile, requiredParameters(request), end.fault)
    if (verdict.complete && !this.#gate.isOpen) {
      try {
        this.#closeGate()
      } catch (thrown) {
        return { complete: false, fault: thrown as Fault }
      }
    }
    return verdict
  }

  /** The answer is over, or goes on with a tool, while its beginning is still being compared. */
  #closeGate(): void {
    const held = this.#gate.close()
    if (held === undefined) throw this.#mismatch()
    const part = this.state.parts.findLast((known) => known.kind !== 'tool')
    if (held !== '' && part !== undefined) this.text(part, held)
  }

  #mismatch(): Fault {
    this.isMismatch = true
    return new Fault('model_stream_interrupted', {
      phase: 'stream',
      errorRaw: 'the server did not go on where the unfinished text ends',
    })
  }
}
