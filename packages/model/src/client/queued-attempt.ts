/** One attempt whose answer goes into a queue of events, for a caller that asks a model itself. */
import { randomUUID } from 'node:crypto'
import type { Fault, FaultReport, Policy } from '@breakfall/faults'
import { MemoryBudget, unboundedShare } from '@breakfall/wire/node'
import { AnswerAttempt, type AnswerSink } from '../attempt/answer-attempt.ts'
import type { AttemptRequest } from '../attempt/attempt.ts'
import { withReplay } from '../attempt/replay.ts'
import { attemptRequest, isBackground, requiredParameters, takesPrefill, type Target } from '../attempt/target.ts'
import type { CallTrace, ProgressEvent } from '../contract/answer.ts'
import { argumentsOf, type Verdict } from '../dialects/proof.ts'
import type { TextPart, ToolPart } from '../dialects/read-answer.ts'
import { monotonicMs, systemNow } from '../lib/clock.ts'
import { parsedOr } from '../lib/json.ts'
import { continuationGate, prefillOf } from '../machine/kept-text.ts'
import { PrefixGate } from '../machine/prefix-gate.ts'
import { Conversations } from '../repair/conversations.ts'
import { RequestRepair } from '../repair/request-repair.ts'
import type { MachineEvent } from '../machine/reduce-answer.ts'
import type { ShownPart } from '../machine/state.ts'

export type QueuedOptions = {
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
  readonly lastFault?: FaultReport | null | undefined
  /** No other attempt may follow. */
  readonly isLast?: boolean
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

/** Those that a server refused and that were repaired. */
const clientConversations = new Conversations(systemNow)

const DRAFT_MS = 1_000 // between two drafts of one call
const DELTA_CHARS_MAX = 4_096

export class QueuedAttempt implements AnswerSink {
  readonly #options: QueuedOptions
  readonly #attempt: AnswerAttempt
  readonly #keepsText: boolean
  readonly #shown = new Map<string, ShownDelta>()
  #lastShown: ShownDelta | undefined
  #lastDelta: TextDelta | undefined
  readonly #drafts = new Map<string, number>()
  #repair: RequestRepair | undefined

  constructor(options: QueuedOptions) {
    const { attempt, target, kept, trace, lastFault = null } = options
    const { request, api, profile } = target
    const resumed = kept !== ''
    this.#options = options
    this.#keepsText = takesPrefill(target)
    this.#attempt = new AnswerAttempt(
      {
        ...options,
        api,
        profile,
        model: request.model,
        baseUrl: request.baseUrl,
        request: (maxTokens = request.maxTokens) => {
          const asked = attemptRequest({ ...target, request: { ...request, maxTokens } }, prefillOf(kept))
          return withReplay(resumed ? asked : this.#repaired(asked), request.baseUrl, profile)
        },
        isLimitOpen: request.maxTokens === undefined,
        isBackground: isBackground(target),
        resumed,
        gate: resumed ? continuationGate(kept, profile.prefillEcho) : new PrefixGate([]),
        everyJson: false,
        choices: 1,
        required: requiredParameters(request),
        maxTokens: request.maxTokens,
        asked: () => ({ messages: request.messages, ...request.extra }),
        lastFault,
        memory: clientMemory.open(),
        trace: { traceparent: trace?.traceparent, backoffMs: trace?.backoffMs, attempt },
        onProgress: trace?.chunk === undefined ? undefined : () => trace.chunk?.(),
      },
      this,
    )
  }

  async run(): Promise<AttemptResult> {
    const { attempt, events, target } = this.#options
    const { model, baseUrl } = target.request
    events.push({ type: 'attempt-start', attempt, model, baseUrl })
    const verdict = await this.#attempt.run().finally(() => this.#attempt.memory.close())
    const { phase, usage, diverged, progress } = this.#attempt
    if (phase === 'stream') events.push({ type: 'usage', attempt, usage })
    if (!verdict.complete) return { complete: false, fault: this.#refused(verdict.fault), diverged, contentStarted: progress > 0 } // prettier-ignore
    this.#releaseCalls(verdict.calls)
    return { complete: true, finish: verdict.finish, proven: verdict.proven }
  }

  /** With the conversation as an earlier attempt had to repair it. */
  #repaired(asked: AttemptRequest): AttemptRequest {
    const { api, request } = this.#options.target
    const blocks = [asked.body].flat().map((part) => (typeof part === 'string' ? Buffer.from(part) : part))
    const key = `${request.baseUrl} ${api} ${request.model}`
    this.#repair = new RequestRepair(blocks, { api, key, conversations: clientConversations, memory: unboundedShare() })
    return { ...asked, body: this.#repair.body }
  }

  /** A refused conversation that can be repaired is worth another attempt, once. */
  #refused(fault: Fault): Fault {
    const repair = this.#repair
    const { refusal, errorFrame, progress } = this.#attempt
    const isHistory = fault.category === 'model_history_invalid'
    const isRefused = isHistory || (repair?.isKnown === true && fault.category === 'model_bad_request')
    if (repair === undefined || !isRefused || progress > 0) return fault
    const wasKnown = repair.isKnown
    const said = refusal?.body.toString() ?? errorFrame?.data ?? fault.errorRaw
    const isRepaired = repair.refused(refusal?.status ?? 200, parsedOr(said))
    const note = repair.notes.at(-1)
    if (wasKnown || !isRepaired || note === undefined || !repair.taken()) return fault
    const happened = `The model provider rejected the conversation, and Breakfall has repaired it (${note.cause}, ${note.place}).`
    return fault.with({ next: 'retry', message: { happened } })
  }

  pause(): void {
    this.#attempt.pause()
  }

  resume(): void {
    this.#attempt.resume()
  }

  record(...outcome: Parameters<AnswerAttempt['record']>): ReturnType<AnswerAttempt['record']> {
    return this.#attempt.record(...outcome)
  }

  /** What it has shown. Has its text only if that can be continued: answers can be long. */
  get shown(): MachineEvent {
    const { attempt } = this.#options
    const texts = [...this.#shown.values()].map(({ type, part, text }): ShownPart => {
      return { attempt, part, kind: type === 'text-delta' ? 'text' : 'reasoning', text }
    })
    const drafts = [...this.#drafts.keys()].map((part): ShownPart => ({ attempt, part, kind: 'tool', text: '' }))
    return { type: 'parts-shown', attempt, parts: [...texts, ...drafts] }
  }

  // ---- what the attempt calls ----

  get isFull(): boolean {
    return this.#options.events.isFull
  }

  text(part: TextPart, fresh: string): void {
    if (fresh === '') return
    const shown = this.#shownAs(part)
    if (part.kind === 'text' && this.#keepsText) shown.text += fresh
    this.#emitText(part, fresh)
  }

  tool(part: ToolPart): void {
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

  // ---- details ----

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

  #releaseCalls(calls: Extract<Verdict, { complete: true }>['calls']): void {
    const { attempt, events } = this.#options
    const used = new Set<string>()
    for (const part of calls) {
      const callId = part.callId === '' || used.has(part.callId) ? `call_${randomUUID()}` : part.callId
      used.add(callId)
      events.push({ type: 'tool-call', attempt, part: part.id, callId, tool: part.tool, arguments: argumentsOf(part) })
    }
  }
}

type TextDelta = Extract<ProgressEvent, { type: 'text-delta' | 'reasoning-delta' }>
type ShownDelta = { readonly type: TextDelta['type']; readonly attempt: number; readonly part: string; text: string }
