/**
 * Gets one answer from the model and journals it as it comes.
 *
 * I1  Tool calls are journalled together and only after the answer is proven whole: a crash before that leaves none.
 * I2  A try that failed is in the journal before the next one begins. A plain retry is therefore made by the engine, which
 *     waits as the journal says; only what the model client alone can do (to continue kept text, to ask the next model)
 *     goes on inside the same call.
 * I3  Only `decide` says what a final fault means; here it is asked with the whole turn's budget.
 */
import { decide, faultFrom, type FaultReport } from '@breakfall/faults'
import type { AnswerEvent, AnswerOptions, AnswerRequest } from '@breakfall/model'
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
  const answer = new Answer(ports, session, turn)
  let failed: EventOf<'attempt-failed'> | undefined
  try {
    for await (const event of ports.streamAnswer(...(await requestOf(ports, session, turn, attempt)))) {
      ports.failpoint(`answer:${event.type}`)
      if (event.type === 'attempt-failed' && event.action === 'retry' && answer.isPlain) {
        failed = event
        break // I2
      }
      await answer.take(event)
    }
    if (failed !== undefined) await answer.retry(failed, true)
  } finally {
    answer.drop()
  }
}

// ---- details, in the order they are used above ----

async function requestOf(
  ports: Ports,
  session: LiveSession,
  turn: TurnFold,
  attempt: number,
): Promise<[AnswerRequest, AnswerOptions]> {
  const { baseUrl, name, api, apiKey, profile, fallback = [] } = await ports.model()
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
    // Numbers of attempts go on after a crash, so that no part's name is used twice; the tries that are left do not change.
    policy: { ...policy, attemptsMax: attempt - 1 - turn.attemptsSpent + policy.attemptsMax },
    fallback: fallback.map(({ name: model, ...rest }) => (model === undefined ? rest : { ...rest, model })),
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

class Answer {
  readonly #ports: Ports
  readonly #session: LiveSession
  readonly #turn: TurnFold
  readonly #out: Coalescer
  readonly #shown = new Set<string>()
  readonly #calls: EventOf<'tool-call'>[] = []
  #draftedAt = Number.NEGATIVE_INFINITY
  #usage: unknown
  /** False once the model client went on in a way that only it can. */
  isPlain = true

  constructor(ports: Ports, session: LiveSession, turn: TurnFold) {
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
        if (event.action === 'stop' || event.action === 'park' || event.action === 'compact') return // the final fault says it
        this.isPlain = false
        return this.retry(event, false)
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

  /** With the attempt's usage, where nobody else will count it. */
  async retry(failed: EventOf<'attempt-failed'>, isCounted: boolean): Promise<void> {
    if (this.#session.signal.aborted) return
    const { attempt, action, delayMs, max } = failed
    const fault = await this.#told(failed.fault)
    const nextAt = new Date(this.#ports.now() + delayMs).toISOString()
    const usage = isCounted && this.#usage !== undefined ? { usage: this.#usage } : {}
    await this.#out.flush(this.#draft('retry', { attempt, fault, action, delayMs, nextAt, max, ...usage }))
  }

  async #done({ usage, proven }: EventOf<'done'>): Promise<void> {
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

  async #gaveUp(report: FaultReport): Promise<void> {
    await this.#out.flush()
    const fault = await this.#told(report)
    if (this.#session.signal.aborted) return // whoever stopped it says how it ends
    const turn = this.#session.fold.turn as TurnFold
    const { budget } = turn
    const { policy } = this.#session
    const situation = {
      attempt: policy.attemptsMax, // the model client has spent what there was
      failures: budget.failures + 1,
      waitedMs: budget.waitedMs,
      dice: this.#ports.dice(),
      canPark: true,
      parks: budget.parks,
      parkedMs: budget.parkedMs,
      compacted: budget.compacted,
      restarts: LAST_RESTART,
      deadlineAt: deadlineAt(turn, policy),
    }
    const decision = decide(fault, situation, policy, this.#ports.now()) // I3
    if (decision.action === 'compact') return this.#compact(fault)
    if (decision.action === 'park' || decision.action === 'stop') throw new GivenUp(fault, decision)
    throw new GivenUp(fault, { action: 'stop', because: 'attempts_spent' })
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

/** A crashed model server is waited for by parking, not by counting its restarts here. */
const LAST_RESTART = Number.MAX_SAFE_INTEGER

/** Some servers number their calls from 0 in every answer; results must not get mixed up. */
function unusedId(callId: string, taken: ReadonlySet<string>, step: number): string {
  if (callId !== '' && !taken.has(callId)) return callId
  for (let n = 1; ; n += 1) {
    const id = `${callId || 'call'}-${step}-${n}`
    if (!taken.has(id)) return id
  }
}
