/**
 * Makes one try at an answer and journals it as it comes.
 *
 * I1  Tool calls are journalled together and only after the answer is proven whole: a crash before that leaves none.
 * I2  A try that failed is in the journal, with what follows from it, before that begins: the same question again, a
 *     continuation of kept text, the next model of the list. A daemon that takes the turn over goes on exactly there.
 * I3  Only `decide` says what follows; it is asked with the whole turn's budget.
 * I4  No secret is shown in pieces. What may be the beginning of one is shown when it turns out to be none, or when the answer is
 *     whole; of an answer that broke off it is not, so that whoever goes on after it says it again.
 */
import { type Decision, Fault, faultFrom, type FaultReport, isFault } from '@breakfall/faults'
import { type AnswerRequest, canContinue, type Fallback, placesOf, type TryEvent, type Usage } from '@breakfall/model'
import type { EventDraftOf } from '@breakfall/wire'
import type { LocalModelRequest } from '../model-server.ts'
import type { ModelConfig } from '../options.ts'
import { resultsToDrop, toMessages } from '../turn/messages.ts'
import { deadlineAt } from '../turn/next.ts'
import { textOf } from '../turn/reduce.ts'
import type { TurnFold } from '../turn/state.ts'
import { addUsage } from '../turn/usage.ts'
import { Coalescer, type TextDraft } from './coalesce.ts'
import { GivenUp } from './given-up.ts'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { SecretStream } from '../secrets.ts'
import { toolSpecs } from './tools.ts'
import { decideFor } from './turn-decision.ts'

const DRAFT_EVERY_MS = 1_000

type EventOf<T extends TryEvent['type']> = Extract<TryEvent, { type: T }>
type Delta = EventOf<'text-delta'> | EventOf<'reasoning-delta'>
type Failure = Pick<EventOf<'failed'>, 'fault' | 'mayResume' | 'prefillRefused'> & { readonly usage?: Usage }

export async function performAnswer(ports: Ports, session: LiveSession, attempt: number): Promise<void> {
  const { signal, policy } = session
  const turn = session.turnNow
  const model = await ports.model()
  const places = placesOf(requestOf(ports, session, model), fallbacksOf(model))
  const target = Math.min(turn.target, places.length - 1) // the list may have become shorter since
  const request = places[target] as AnswerRequest
  const answer = new Answer(ports, session, { attempt, fallbacks: places.length - 1 - target })
  const kept = textOf(turn)
  if (kept !== '' && !canContinue(request, kept)) return answer.takeBack()
  const isLocal = isServed(ports, model, target)
  using served = isLocal ? await answer.openRequest() : undefined
  if (isLocal && served === undefined) return
  const options = { attempt, kept, policy, now: ports.now, deadlineAt: deadlineAt(turn, policy) }
  const asked = served === undefined ? request : { ...request, baseUrl: served.baseUrl }
  const whileServed =
    served === undefined
      ? { signal }
      : { signal: AbortSignal.any([signal, served.signal]), onBytes: () => served.progress() }
  try {
    for await (const event of ports.tryAnswer(asked, { ...options, ...whileServed })) {
      served?.hold() // while the journal takes the event, nobody waits for the server
      ports.failpoint(`answer:${event.type}`)
      await answer.take(event)
      served?.progress()
    }
  } finally {
    answer.drop()
  }
}

// ---- details, in the order they are used above ----

function requestOf(ports: Ports, session: LiveSession, { baseUrl, name, api, apiKey, profile }: ModelConfig) {
  return {
    baseUrl,
    model: session.data.model ?? name,
    messages: toMessages(session.fold, ports.systemPrompt),
    tools: toolSpecs(session.data.tools),
    api,
    apiKey,
    profile,
  }
}

const fallbacksOf = ({ fallback = [] }: ModelConfig): readonly Fallback[] =>
  fallback.map(({ name, ...rest }) => (name === undefined ? rest : { ...rest, model: name }))

/** A fallback that names no address of its own is another model at the first one's server. */
function isServed({ localModel }: Ports, { fallback = [] }: ModelConfig, target: number): boolean {
  return localModel !== undefined && (target === 0 || fallback[target - 1]?.baseUrl === undefined)
}

class Answer {
  readonly #ports: Ports
  readonly #session: LiveSession
  readonly #turn: TurnFold
  readonly #attempt: number
  /** How many models are left in the list after this one. */
  readonly #fallbacks: number
  readonly #out: Coalescer
  /** The text in all parts together is what people read; the marks are the parts. */
  readonly #said: Readonly<Record<Delta['type'], SecretStream<string>>>
  readonly #calls: EventOf<'tool-call'>[] = []
  #served: LocalModelRequest | undefined
  #draftedAt = Number.NEGATIVE_INFINITY

  constructor(ports: Ports, session: LiveSession, what: { attempt: number; fallbacks: number }) {
    this.#ports = ports
    this.#session = session
    this.#turn = session.turnNow
    this.#attempt = what.attempt
    this.#fallbacks = what.fallbacks
    this.#out = new Coalescer((drafts) => session.append(...drafts))
    const { secrets } = ports
    this.#said = { 'text-delta': new SecretStream(secrets), 'reasoning-delta': new SecretStream(secrets) }
  }

  /** Registers the attempt with the model server that this daemon runs. If that was given up, the attempt has failed. */
  async openRequest(): Promise<LocalModelRequest | undefined> {
    const { signal } = this.#session
    try {
      this.#served = await this.#ports.localModel?.request(signal)
      return this.#served
    } catch (thrown) {
      if (signal.aborted || !isFault(thrown)) throw thrown
      await this.failed({ fault: thrown.report, mayResume: false, prefillRefused: false })
      return undefined
    }
  }

  async take(event: TryEvent): Promise<void> {
    switch (event.type) {
      case 'attempt-start':
      case 'usage':
        return
      case 'text-delta':
      case 'reasoning-delta':
        return this.#delta(event)
      case 'tool-draft':
        return this.#drafted(event)
      case 'tool-call':
        this.#calls.push(event)
        return
      case 'done':
        return this.#done(event)
      case 'failed':
        return this.failed({ ...event, usage: event.record.usage })
    }
  }

  /** The try came to nothing. What that means for the turn is decided with the turn's whole budget. */
  async failed({ fault: report, mayResume, prefillRefused, usage }: Failure): Promise<void> {
    await this.#out.flush()
    if (this.#session.signal.aborted) return // whoever stopped it says how it ends, and what was said stays said
    const turn = this.#session.turnNow
    const plain = await this.#told(report)
    const now = this.#ports.now()
    const decision = this.#decided(plain, turn)
    const attempt = this.#attempt
    const max = attempt - 1 - turn.attemptsSpent + this.#session.policy.attemptsMax
    if (decision.action === 'park' || decision.action === 'stop') {
      const fault = { ...plain, retry: { attempt, max, nextAt: null } }
      await this.#out.flush(...this.#discards(turn, fault))
      throw new GivenUp(fault, decision)
    }
    const { delayMs } = decision
    const nextAt = new Date(now + delayMs).toISOString()
    const fault = { ...plain, retry: { attempt, max, nextAt } }
    const action = actionOf(decision.action, mayResume && !turn.prefillRefused)
    const drafts = action === 'resume' ? [] : this.#discards(turn, fault)
    const compacted = decision.action === 'compact' ? resultsToDrop(this.#session.fold) : undefined
    const refusal = prefillRefused ? { prefillRefused } : {}
    const facts = { attempt, fault, action, delayMs, nextAt, max, usage, compacted, ...refusal }
    await this.#out.flush(...drafts, { type: 'retry', ...this.#place, ...facts }) // I2
  }

  /** The model that was to go on after kept text cannot, as the configuration is now: it is asked from the start. */
  async takeBack(): Promise<void> {
    const because = new Fault('model_stream_interrupted', {
      turnId: this.#turn.id,
      error: 'the model that is configured now cannot continue an answer that broke off; it is asked for all of it.',
    }).report
    await this.#session.append(...this.#discards(this.#turn, because))
  }

  drop(): void {
    this.#out.drop()
  }

  async #delta({ type, part, text }: Delta): Promise<void> {
    if (type === 'text-delta') await this.#show('reasoning-delta', this.#said['reasoning-delta'].end())
    await this.#show(type, this.#said[type].push(text, part)) // I4
  }

  async #show(type: Delta['type'], piece: { readonly text: string; readonly mark: string } | null): Promise<void> {
    if (piece === null || piece.text === '') return
    const { text, mark: part } = piece
    const continues = (held: TextDraft): boolean => held.type === type && held.part === part
    await this.#out.push({ type, ...this.#place, attempt: this.#attempt, part, text }, continues)
  }

  /** What was said is over, and so is what could have become a secret. */
  async #showRest(): Promise<void> {
    for (const type of ['reasoning-delta', 'text-delta'] as const) await this.#show(type, this.#said[type].end())
  }

  async #drafted({ attempt, part, tool, argumentsBytes }: EventOf<'tool-draft'>): Promise<void> {
    await this.#showRest() // a call ends the text before it
    const now = this.#ports.now()
    if (now - this.#draftedAt < DRAFT_EVERY_MS) return
    this.#draftedAt = now
    await this.#out.flush({ type: 'tool-draft', ...this.#place, attempt, part, tool, argumentsBytes })
  }

  async #done({ record: { usage }, proven, finish }: EventOf<'done'>): Promise<void> {
    await this.#showRest()
    await this.#out.flush()
    if (this.#calls.length > 0) return this.#called(usage)
    const turn = this.#session.turnNow
    await this.#session.append({
      type: 'turn-end',
      turnId: turn.id,
      text: textOf(turn),
      usage: addUsage(turn.usage, usage),
      steps: turn.step,
      faultsSurvived: turn.faultsSurvived,
      ...(finish === 'stop' ? {} : { finish }),
      ...(proven ? {} : { unproven: true }),
    })
  }

  async #called(usage: Usage): Promise<void> {
    const taken = new Set(this.#session.fold.entries.flatMap((entry) => (entry.role === 'tool' ? [entry.callId] : [])))
    const drafts = this.#calls.map(({ callId, tool, arguments: given }, index): EventDraftOf<'tool-call'> => {
      const id = unusedId(callId, taken, this.#turn.step)
      taken.add(id)
      const execId = `${this.#turn.id}-${this.#turn.step}-${index + 1}`
      const counted = index === 0 ? { usage } : {}
      return { type: 'tool-call', ...this.#place, callId: id, tool, arguments: given, execId, ...counted }
    })
    for (const draft of drafts) this.#session.freshCalls.add(draft.callId)
    await this.#session.append(...drafts) // I1
  }

  #decided(fault: FaultReport, turn: TurnFold): Decision {
    const isMixed = turn.failedAs.some((category) => category !== fault.category)
    const failed = { at: 'answer', attempt: turn.attemptsSpent + 1, isMixed, fallbacks: this.#fallbacks } as const
    const decision = decideFor(this.#ports, this.#session, turn, fault, failed) // I3
    const isFutile = decision.action === 'compact' && resultsToDrop(this.#session.fold).length === 0
    return isFutile ? { action: 'stop', because: 'already_compacted' } : decision
  }

  /** Everything that is shown of the answer, kept text too, is taken back. */
  #discards({ parts }: TurnFold, because: FaultReport): readonly EventDraftOf<'part-discarded'>[] {
    return parts.map(({ attempt, part }) => ({ type: 'part-discarded', ...this.#place, attempt, part, because }))
  }

  get #place(): { readonly turnId: string; readonly step: number } {
    return { turnId: this.#turn.id, step: this.#turn.step }
  }

  async #told(report: FaultReport): Promise<FaultReport> {
    const seen = faultFrom(report)
    const fault = (await this.#served?.judge(seen)) ?? seen
    return fault.with({ turnId: this.#turn.id }).report
  }
}

/** What the journal says of it. Where what was shown can be continued, to try again is to go on after it. */
function actionOf(
  action: Exclude<Decision['action'], 'park' | 'stop'>,
  mayResume: boolean,
): 'retry' | 'resume' | 'fallback' {
  switch (action) {
    case 'retry':
    case 'restart':
    case 'resolve':
      return mayResume ? 'resume' : 'retry'
    case 'fallback':
      return 'fallback'
    case 'compact':
      return 'retry'
  }
}

/** Some servers number their calls from 0 in every answer; results must not get mixed up. */
function unusedId(callId: string, taken: ReadonlySet<string>, step: number): string {
  if (callId !== '' && !taken.has(callId)) return callId
  for (let n = 1; ; n += 1) {
    const id = `${callId || 'call'}-${step}-${n}`
    if (!taken.has(id)) return id
  }
}
