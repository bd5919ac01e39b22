/**
 * The traces of turns: one span for a turn, below it one for each call to a model and one for each tool. The model client adds the
 * attempts. Fed with committed events, so a trace shows what the journal shows.
 *
 * I1  A span is never open for hours: a park ends the turn's span, and what follows is a new trace with a link to the first one. So is
 *     what follows a restart.
 * I2  A turn's first span is known before its first event, and a tool's before its call: the event carries it, so every later process
 *     can link to it, and a command that is started again has the same environment.
 */
import { isFault } from '@breakfall/faults'
import { TELEMETRY } from '@breakfall/model'
import { ChatSpan, type Span, startSpan, type Target } from '@breakfall/model/internal'
import type { EventType, SessionEvent } from '@breakfall/wire'

const { attributes: A, events, operations, spans } = TELEMETRY

export class TurnTraces {
  readonly #turns = new Map<string, Segment>()

  /** Starts the turn's first span, below the caller's if it sent one. Returns what the journal keeps. */
  begin(sessionId: string, turnId: string, caller: string | undefined): string | undefined {
    return this.#open({ sessionId, turnId }, { parent: caller }).span.traceparent // I2
  }

  /** The turn was not accepted, for the given reason, which is thrown again. */
  refused(turnId: string, thrown: unknown): never {
    this.#close(turnId, isFault(thrown) ? thrown.category : 'other')
    throw thrown
  }

  /** `first`: what `begin` returned, as the journal has it. */
  event(event: SessionEvent, first: string | undefined): void {
    const { turnId, type } = event
    if (STARTS.has(type)) this.#segment(event, first)
    if (type === 'retry') {
      const { chat } = this.#segment(event, first)
      if (chat !== undefined) chat.backoffMs = event.delayMs
    }
    if (type === 'tool-result') this.#endTool(turnId, event.callId, event.outcome)
    if (type === 'parked') {
      this.#turns.get(turnId)?.span.event(events.parked, { [A.category]: event.fault.category })
      this.#close(turnId, undefined, event.fault.category) // I1
    }
    if (type === 'turn-end') this.#close(turnId)
    if (type === 'turn-error') this.#close(turnId, event.category)
  }

  /** Starts the span of a tool call. Returns what the journal keeps: nothing without an SDK. */
  beginTool({ turnId, callId, tool }: ToolIds): string | undefined {
    const segment = this.#turns.get(turnId)
    if (segment === undefined) return undefined
    const attributes = { [A.operation]: operations.tool, [A.toolName]: tool, [A.toolCall]: callId }
    const parent = segment.span.traceparent
    const span = startSpan(`${spans.tool} ${tool}`, { kind: 'internal', attributes, parent })
    segment.tools.set(callId, span)
    return span.traceparent === parent ? undefined : span.traceparent // I2
  }

  /** The call that an attempt of this turn belongs to. It ends with `end`, or with the turn. */
  chat(turn: { readonly id: string; readonly step: number }, { api, request }: Target): ChatSpan | undefined {
    const segment = this.#turns.get(turn.id)
    if (segment === undefined) return undefined
    segment.chat ??= new ChatSpan({
      api,
      model: request.model,
      baseUrl: request.baseUrl,
      parent: segment.span.traceparent,
      attributes: { [A.step]: turn.step },
    })
    return segment.chat
  }

  /** The call is over: the next attempt belongs to another one. */
  answered(turnId: string): void {
    const segment = this.#turns.get(turnId)
    if (segment !== undefined) segment.chat = undefined
  }

  // ---- details ----

  #segment(event: Ids, first: string | undefined): Segment {
    return this.#turns.get(event.turnId) ?? this.#open(event, { root: true, links: [first] }) // I1
  }

  #open(
    { sessionId, turnId }: Ids,
    at: { parent?: string | undefined; root?: true; links?: readonly (string | undefined)[] },
  ): Segment {
    const attributes = {
      [A.operation]: operations.agent,
      [A.agent]: 'breakfall',
      [A.conversation]: sessionId,
      [A.turn]: turnId,
    }
    const segment: Segment = {
      span: startSpan(spans.agent, { kind: 'internal', attributes, ...at }),
      chat: undefined,
      tools: new Map(),
    }
    this.#turns.set(turnId, segment)
    const [oldest] = this.#turns.keys()
    if (this.#turns.size > TURNS_MAX && oldest !== undefined) this.#close(oldest)
    return segment
  }

  #endTool(turnId: string, callId: string, outcome: string): void {
    const tools = this.#turns.get(turnId)?.tools
    const span = tools?.get(callId)
    tools?.delete(callId)
    span?.set({ [A.outcome]: outcome })
    span?.end(outcome === 'unknown' ? 'exec_outcome_unknown' : undefined)
  }

  #close(turnId: string, error?: string, inside = error): void {
    const segment = this.#turns.get(turnId)
    if (segment === undefined) return
    this.#turns.delete(turnId)
    segment.chat?.end({ error: inside })
    for (const span of segment.tools.values()) span.end(inside)
    segment.span.end(error)
  }
}

/** What is known of a turn while it runs. */
type Segment = { readonly span: Span; chat: ChatSpan | undefined; readonly tools: Map<string, Span> }

type Ids = { readonly sessionId: string; readonly turnId: string }

type ToolIds = { readonly turnId: string; readonly callId: string; readonly tool: string }

/** After one of these a turn is under way. */
const STARTS: ReadonlySet<EventType> = new Set(['turn-start', 'resumed', 'taken-over', 'step-start'])

/** More than any daemon drives; a session that another daemon took over leaves its span behind. */
const TURNS_MAX = 10_000
