/**
 * Journals one attempt at an answer as it streams in.
 *
 * I1  Tool calls are journalled together and only after the answer is proven complete: a crash before that leaves none.
 * I2  No secret is shown in pieces. Text that may be the start of a secret is held until it turns out not to be one or the
 *     answer is complete. If the answer breaks off it is never shown, and the next attempt says it again.
 */
import type { FaultReport } from '@breakfall/faults'
import type { TryEvent } from '@breakfall/model'
import { type Rung, type ShownPart, shownText } from '@breakfall/model/internal'
import type { EventDraft, EventDraftOf } from '@breakfall/wire'
import { SecretStream } from '../secrets.ts'
import type { TurnFold } from '../turn/state.ts'
import { addUsage, addCost, type Price, totalCost, type Used, usedOf } from '../turn/cost.ts'
import { Coalescer, type TextDraft } from '../session/coalesce.ts'
import { NOTES_FILE } from '../tools/file-tools.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { ToolCatalog } from '../tools/catalog.ts'

const DRAFT_EVERY_MS = 1_000

/** Takes what one attempt says. */
export type AttemptWriter = {
  write(event: Exclude<TryEvent, { type: 'failed' }>): Promise<void>
  /** Writes everything held, and after it these events, in one append. */
  flush(...events: readonly EventDraft[]): Promise<void>
  /** Forgets what is held. */
  drop(): Promise<void>
  /** The tool that the answer began to call last. Undefined if a call cannot be shown to the model. */
  readonly calling: string | undefined
}

/** What is known about the request. */
export type Asked = {
  readonly requestBytes: number
  /** The definitions of tools that the model was shown. */
  readonly definitions: ReadonlyMap<string, string>
  readonly price?: Price | undefined
}

type EventOf<T extends TryEvent['type']> = Extract<TryEvent, { type: T }>
type Delta = EventOf<'text-delta'> | EventOf<'reasoning-delta'>

export class AnswerWriter implements AttemptWriter {
  readonly #tools: ToolCatalog
  readonly #session: OwnedSession
  readonly #attempt: number
  readonly #price: Price | undefined
  readonly #out: Coalescer
  /** People read the text of all parts together, so a secret may span parts. The marks say which part a piece belongs to. */
  readonly #text: Readonly<Record<Delta['type'], SecretStream<string>>>
  readonly #calls: EventOf<'tool-call'>[] = []
  readonly #requestBytes: number
  readonly #definitions: ReadonlyMap<string, string>
  calling: string | undefined
  #draftedAt = Number.NEGATIVE_INFINITY

  constructor(tools: ToolCatalog, session: OwnedSession, attempt: number, { requestBytes, definitions, price }: Asked) {
    this.#requestBytes = requestBytes
    this.#definitions = definitions
    this.#tools = tools
    this.#session = session
    this.#attempt = attempt
    this.#price = price
    this.#out = new Coalescer((drafts) => session.append(...drafts), session.clock)
    const { secrets } = session
    this.#text = { 'text-delta': new SecretStream(secrets), 'reasoning-delta': new SecretStream(secrets) }
  }

  async write(event: Exclude<TryEvent, { type: 'failed' }>): Promise<void> {
    switch (event.type) {
      case 'attempt-start':
      case 'usage':
        return
      case 'text-delta':
      case 'reasoning-delta':
        return this.#delta(event)
      case 'tool-draft':
        return this.#draftCall(event)
      case 'tool-call':
        this.#calls.push(event)
        return
      case 'done':
        return this.#complete(event)
    }
  }

  /** Writes everything held, and after it these events, in one append. */
  flush(...events: readonly EventDraft[]): Promise<void> {
    return this.#out.flush(...events)
  }

  /** Forgets what is held, once the write under way has ended. */
  drop(): Promise<void> {
    return this.#out.drop()
  }

  async #delta({ type, part, text }: Delta): Promise<void> {
    if (type === 'text-delta') await this.#show('reasoning-delta', this.#text['reasoning-delta'].end())
    await this.#show(type, this.#text[type].push(text, part)) // I2
  }

  async #show(type: Delta['type'], piece: { readonly text: string; readonly mark: string } | null): Promise<void> {
    if (piece === null || piece.text === '') return
    const { text, mark: part } = piece
    const continues = (held: TextDraft): boolean => held.type === type && held.part === part
    await this.#out.push({ ...this.#place, type, attempt: this.#attempt, part, text }, continues)
  }

  /** The text ends here, so nothing held can become a secret any more. */
  async #showRest(): Promise<void> {
    for (const type of ['reasoning-delta', 'text-delta'] as const) await this.#show(type, this.#text[type].end())
  }

  async #draftCall({ attempt, part, tool, argumentsBytes }: EventOf<'tool-draft'>): Promise<void> {
    if (tool !== '') this.calling = tool
    await this.#showRest()
    const now = this.#session.clock.now()
    if (now - this.#draftedAt < DRAFT_EVERY_MS) return
    this.#draftedAt = now
    await this.#out.flush({ ...this.#place, type: 'tool-draft', attempt, part, tool, argumentsBytes })
  }

  async #complete({ record, proven, finish }: EventOf<'done'>): Promise<void> {
    const used = usedOf(record.usage, this.#price)
    this.#session.attemptUsed(used)
    await this.#showRest()
    await this.#out.flush()
    if (this.#calls.length > 0) return this.#releaseCalls(used)
    const turn = this.#session.currentTurn
    const cost = totalCost(addCost(turn.cost, used.usage, used.cost))
    const files = await this.#tools.changedFiles(this.#session, this.#session.signal)
    await this.#session.append({
      type: 'turn-end',
      turnId: turn.id,
      text: shownText(turn.answer),
      usage: addUsage(turn.usage, used.usage),
      steps: turn.step,
      faultsSurvived: turn.status.faults.met,
      ...(cost === undefined ? {} : { cost }),
      ...(finish === 'stop' ? {} : { finish }),
      ...(proven ? {} : { unproven: true }),
      ...files,
    })
  }

  async #releaseCalls(used: Used): Promise<void> {
    const { entries } = this.#session.fold
    const { id: turnId, step } = this.#session.currentTurn
    const taken = new Set(entries.flatMap((entry) => (entry.role === 'tool' ? [entry.callId] : [])))
    const drafts = this.#calls.map(({ callId, tool, arguments: given }, index): EventDraftOf<'tool-call'> => {
      const id = unusedId(callId, taken, step)
      taken.add(id)
      const execId = `${turnId}-${step}-${index + 1}`
      const definition = this.#definitions.get(tool)
      const shown = definition === undefined ? {} : { definition }
      const traceparent = this.#session.observer.traces.beginTool({ turnId, callId: id, tool })
      const traced = traceparent === undefined ? {} : { traceparent }
      const noted = NOTES_FILE.has(tool) ? { notesFile: true } : {}
      const known = { ...shown, ...traced, ...noted }
      const call = { type: 'tool-call', turnId, step, callId: id, tool, arguments: given, execId, ...known } as const
      return index === 0 ? { ...call, ...used, requestBytes: this.#requestBytes } : call
    })
    await this.#session.append(...drafts) // I1
  }

  get #place(): { readonly turnId: string; readonly step: number } {
    const { id: turnId, step } = this.#session.currentTurn
    return { turnId, step }
  }
}

/** Events that discard these parts. A tool call that was only drafted needs none: it was never released. */
export function discardDrafts(
  turn: TurnFold,
  parts: readonly ShownPart[],
  because: FaultReport,
): readonly EventDraftOf<'part-discarded'>[] {
  const { id: turnId, step } = turn
  return parts
    .filter(({ kind }) => kind !== 'tool')
    .map(({ attempt, part }) => ({ type: 'part-discarded', turnId, step, attempt, part, because }))
}

/** The event for a failed attempt and the rung that follows it. */
export function retryDraft(
  { id: turnId, step }: TurnFold,
  rung: Extract<Rung, { delayMs: number }>,
  used: Used | undefined,
  { overflow, to, told }: Pick<EventDraftOf<'retry'>, 'overflow' | 'to' | 'told'> = {},
): EventDraftOf<'retry'> {
  const { attempt, fault, delayMs, nextAt, max, prefillRefused, free } = rung
  const action = rung.action === 'compact' ? 'retry' : rung.action // as the wire names it
  const retry = { type: 'retry', turnId, step, attempt, fault, action, delayMs, nextAt, max, overflow } as const
  return {
    ...retry,
    ...used,
    ...(to === undefined ? {} : { to }),
    ...(told === undefined ? {} : { told }),
    ...(prefillRefused ? { prefillRefused } : {}),
    ...(free ? { free } : {}),
  }
}

// ---- details ----

/** Some servers number their calls from 0 in every answer. Results must not get mixed up. */
function unusedId(callId: string, taken: ReadonlySet<string>, step: number): string {
  if (callId !== '' && !taken.has(callId)) return callId
  for (let n = 1; ; n += 1) {
    const id = `${callId || 'call'}-${step}-${n}`
    if (!taken.has(id)) return id
  }
}
