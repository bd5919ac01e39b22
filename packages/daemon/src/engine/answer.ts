/**
 * Gets one answer from the model and journals it as it comes.
 *
 * I1  Tool calls are journalled together and only after the answer is proven whole: a crash before that leaves none.
 * I2  A try that failed is in the journal before the next one begins: the model client makes one try at a time, and the
 *     engine waits as the journal says. Only where the client can do more than try again (continue kept text, ask the next
 *     model of a list) it goes on by itself, and the journal follows.
 * I3  Only `decide` says what a final fault means; here it is asked with the whole turn's budget.
 */
import { decide, faultFrom, type FaultReport, type Policy } from '@breakfall/faults'
import { type AnswerEvent, type AnswerOptions, type AnswerRequest, PROFILES } from '@breakfall/model'
import type { ModelConfig } from '../options.ts'
import { resultsToDrop, toMessages } from '../turn/messages.ts'
import { deadlineAt } from '../turn/next.ts'
import { textOf } from '../turn/reduce.ts'
import type { TurnFold } from '../turn/state.ts'
import { addUsage } from '../turn/usage.ts'
import { Coalescer } from './coalesce.ts'
import { GivenUp } from './given-up.ts'
import type { Draft, LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'
import { toolSpecs } from './tools.ts'

const DRAFT_EVERY_MS = 1_000

type EventOf<T extends AnswerEvent['type']> = Extract<AnswerEvent, { type: T }>

export async function performAnswer(ports: Ports, session: LiveSession, attempt: number): Promise<void> {
  const turn = session.fold.turn as TurnFold
  await ports.modelReady(session.signal)
  const model = await ports.model()
  const answer = new Answer(ports, session, turn, { attempt, isOneTry: isOneTry(model) })
  try {
    for await (const event of ports.streamAnswer(...requestOf(ports, session, turn, model, attempt))) {
      ports.failpoint(`answer:${event.type}`)
      await answer.take(event)
    }
  } finally {
    answer.drop()
  }
}

// ---- details, in the order they are used above ----

const isOneTry = ({ fallback = [], profile }: ModelConfig): boolean =>
  fallback.length === 0 && (profile === undefined || PROFILES[profile].prefill === 'none')

function requestOf(
  ports: Ports,
  session: LiveSession,
  turn: TurnFold,
  model: ModelConfig,
  attempt: number,
): [AnswerRequest, AnswerOptions] {
  const { baseUrl, name, api, apiKey, profile, fallback = [] } = model
  const { policy } = session
  const request: AnswerRequest = {
    baseUrl,
    model: session.data.model ?? name,
    messages: toMessages(session.fold, ports.systemPrompt),
    tools: toolSpecs(session.data.tools),
    api,
    apiKey,
    profile,
  }
  const options: AnswerOptions = {
    signal: session.signal,
    policy: { ...policy, attemptsMax: isOneTry(model) ? attempt : lastAttempt(turn, policy, attempt) },
    fallback: fallback.map(({ name: other, ...rest }) => (other === undefined ? rest : { ...rest, model: other })),
    budget: { failures: turn.budget.failures, waitedMs: turn.budget.waitedMs },
    canPark: true,
    now: ports.now,
    dice: ports.dice,
    deadlineAt: deadlineAt(turn, policy),
    firstAttempt: attempt,
    compacted: turn.budget.compacted,
  }
  return [request, options]
}

/** Numbers of attempts go on after a crash, so that no part's name is used twice; the tries that are left do not change. */
const lastAttempt = (turn: TurnFold, policy: Policy, attempt: number): number =>
  attempt - 1 - turn.attemptsSpent + policy.attemptsMax

class Answer {
  readonly #ports: Ports
  readonly #session: LiveSession
  readonly #turn: TurnFold
  readonly #out: Coalescer
  readonly #shown = new Set<string>()
  readonly #calls: EventOf<'tool-call'>[] = []
  #draftedAt = Number.NEGATIVE_INFINITY
  readonly #attempt: number
  readonly #isOneTry: boolean
  #usage: unknown

  constructor(ports: Ports, session: LiveSession, turn: TurnFold, how: { attempt: number; isOneTry: boolean }) {
    this.#attempt = how.attempt
    this.#isOneTry = how.isOneTry
    this.#ports = ports
    this.#session = session
    this.#turn = turn
    this.#out = new Coalescer((drafts) => session.append(...drafts))
  }

  async take(event: AnswerEvent): Promise<void> {
    switch (event.type) {
      case 'attempt-start':
        this.#calls.length = 0
        return
      case 'text-delta':
      case 'reasoning-delta':
        return this.#delta(event)
      case 'tool-draft':
        return this.#drafted(event)
      case 'tool-call':
        this.#calls.push(event)
        return
      case 'part-discarded':
        return this.#discarded(event)
      case 'attempt-failed':
        return this.#failed(event)
      case 'usage':
        this.#usage = event.usage
        return
      case 'done':
        return this.#done(event)
      case 'fault':
        return this.#gaveUp(event.fault)
    }
  }

  drop(): void {
    this.#out.drop()
  }

  async #delta({ type, attempt, part, text }: EventOf<'text-delta'> | EventOf<'reasoning-delta'>): Promise<void> {
    this.#shown.add(`${attempt} ${part}`)
    const draft = this.#draft(type, { attempt, part })
    const isSame = (held: Draft): boolean => held.type === type && held['part'] === part && held['attempt'] === attempt
    await this.#out.push(draft, text, isSame)
  }

  async #drafted({ attempt, part, tool, argumentsBytes }: EventOf<'tool-draft'>): Promise<void> {
    const now = this.#ports.now()
    if (now - this.#draftedAt < DRAFT_EVERY_MS) return
    this.#draftedAt = now
    await this.#out.flush(this.#draft('tool-draft', { attempt, part, tool, argumentsBytes }))
  }

  async #discarded({ attempt, part, because }: EventOf<'part-discarded'>): Promise<void> {
    if (!this.#shown.delete(`${attempt} ${part}`)) return // nobody has seen anything of it
    // Stopped on purpose: what was said stays said. A daemon that takes the turn up again discards it then.
    if (this.#session.signal.aborted) return this.#out.flush()
    await this.#out.flush(this.#draft('part-discarded', { attempt, part, because: await this.#told(because) }))
  }

  /** The model client goes on by itself. */
  async #failed({ attempt, fault, action, delayMs, max }: EventOf<'attempt-failed'>): Promise<void> {
    if (action === 'stop' || action === 'park' || action === 'compact') return // the final fault says the rest
    if (this.#session.signal.aborted) return
    const nextAt = new Date(this.#ports.now() + delayMs).toISOString()
    await this.#out.flush(
      this.#draft('retry', { attempt, fault: await this.#told(fault), action, delayMs, nextAt, max }),
    )
  }

  async #done({ usage, proven, finish }: EventOf<'done'>): Promise<void> {
    await this.#out.flush()
    if (this.#calls.length > 0) return this.#called(usage)
    const turn = this.#session.fold.turn as TurnFold
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

  async #called(usage: unknown): Promise<void> {
    const taken = new Set(this.#session.fold.entries.flatMap((entry) => (entry.role === 'tool' ? [entry.callId] : [])))
    const drafts = this.#calls.map(({ callId, tool, arguments: given }, index) => {
      const id = unusedId(callId, taken, this.#turn.step)
      taken.add(id)
      const execId = `${this.#turn.id}-${this.#turn.step}-${index + 1}`
      return this.#draft('tool-call', { callId: id, tool, arguments: given, execId, ...(index === 0 ? { usage } : {}) })
    })
    for (const draft of drafts) this.#session.freshCalls.add(draft['callId'] as string)
    await this.#session.append(...drafts) // I1
  }

  /** The model client has come to its end. What that means for the turn is decided with the turn's whole budget. */
  async #gaveUp(report: FaultReport): Promise<void> {
    await this.#out.flush()
    if (this.#session.signal.aborted) return // whoever stopped it says how it ends
    const { stopped: _stopped, retry: _retry, ...plain } = await this.#told(report)
    const turn = this.#session.fold.turn as TurnFold
    const { policy } = this.#session
    const { failures, waitedMs, parks, parkedMs, compacted } = turn.budget
    const situation = {
      attempt: this.#isOneTry ? turn.attemptsSpent + 1 : policy.attemptsMax,
      failures: failures + 1,
      waitedMs,
      dice: this.#ports.dice(),
      canPark: true,
      parks,
      parkedMs,
      compacted,
      deadlineAt: deadlineAt(turn, policy),
    }
    const now = this.#ports.now()
    const max = lastAttempt(this.#turn, policy, this.#attempt)
    const decision = decide(plain, situation, policy, now) // I3
    const delayMs = 'delayMs' in decision ? decision.delayMs : 0
    const nextAt = 'delayMs' in decision ? new Date(now + delayMs).toISOString() : null
    const fault = { ...plain, retry: { attempt: this.#attempt, max, nextAt } }
    if (decision.action === 'compact') return this.#compact(fault)
    if (decision.action === 'park' || decision.action === 'stop') throw new GivenUp(fault, decision)
    const usage = this.#usage === undefined ? {} : { usage: this.#usage }
    await this.#session.append(
      this.#draft('retry', { attempt: this.#attempt, fault, action: 'retry', delayMs, nextAt, max, ...usage }), // I2
    )
  }

  async #compact(fault: FaultReport): Promise<void> {
    const compacted = resultsToDrop(this.#session.fold)
    if (compacted.length === 0) throw new GivenUp(fault, { action: 'stop', because: 'already_compacted' })
    const attempt = Math.max(1, (this.#session.fold.turn as TurnFold).attempt)
    const nextAt = new Date(this.#ports.now()).toISOString()
    const max = this.#session.policy.attemptsMax
    await this.#session.append(
      this.#draft('retry', { attempt, fault, action: 'retry', delayMs: 0, nextAt, max, compacted }),
    )
  }

  #draft(type: Draft['type'], fields: Readonly<Record<string, unknown>>): Draft {
    return { type, turnId: this.#turn.id, step: this.#turn.step, ...fields }
  }

  async #told(report: FaultReport): Promise<FaultReport> {
    const fault = await this.#ports.explainModelFault(faultFrom(report))
    return fault.with({ turnId: this.#turn.id }).report
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
