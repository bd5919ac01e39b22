/**
 * Shortens the conversation as planned. A summary is an answer like any other: the same attempts, budget and rungs.
 *
 * I1  A shortening is one event. A daemon that dies before it has changed nothing, and the next one asks again.
 * I2  The request is shorter afterwards, or the turn stops and says why.
 */
import { Fault, withDecision } from '@breakfall/faults'
import type { TryEvent } from '@breakfall/model'
import type { EventDraft, EventDraftOf } from '@breakfall/wire'
import { compacted, type Compaction } from '../turn/compaction.ts'
import { usedOf } from '../turn/cost.ts'
import { conversationBytes } from '../turn/messages.ts'
import type { CompactionPlan } from '../turn/state.ts'
import { cutSummary, summaryMessages } from '../turn/summary-request.ts'
import type { AttemptWriter } from './answer-writer.ts'
import { askModel, failed, type ModelPort, type Question, requestFacts, targetFor } from './ask-model.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { CONTINUE, giveUp, type StepResult } from '../turn/step-result.ts'

type Due = { readonly plan: CompactionPlan; readonly attempt: number }

export async function performCompaction(
  models: ModelPort,
  session: OwnedSession,
  { plan, attempt }: Due,
): Promise<StepResult> {
  const { results, summary } = plan
  if (summary === null) return append(models, session, plan, { results })
  const messages = summaryMessages(summary)
  const chosen = await targetFor(models, session, { messages })
  const writer = new SummaryWriter(session)
  const requestBytes = Buffer.byteLength(JSON.stringify({ messages }))
  const question: Question = {
    attempt,
    kept: '',
    requestBytes,
    writer,
    canContinue: false,
    canCompact: () => requestBytes > SUMMARY_REQUEST_BYTES_MIN,
  }
  const performed = await askModel(models, session, chosen, question)
  const { answer } = writer
  if (performed.kind === 'give-up' || answer === undefined) return performed
  const text = cutSummary(session.secrets.scrub(answer.text), summary)
  if (text === '') {
    const fault = new Fault('model_stream_incomplete', { errorRaw: 'the summary is empty' })
    return failed(session, chosen, question, {
      fault,
      diverged: false,
      contentStarted: true,
      usage: answer.usage,
    })
  }
  const written = { results, summary: { text, upToSeq: summary.upToSeq } }
  const used = usedOf(answer.usage, chosen.price)
  session.attemptUsed(used)
  return append(models, session, plan, written, { attempt, ...used })
}

// ---- details, in the order they are used above ----

const SUMMARY_REQUEST_BYTES_MIN = 8 * 1024 // a server that refuses even this much does not refuse it for its length

async function append(
  models: ModelPort,
  session: OwnedSession,
  { fromStep, toStep, results, requestBytes: requestBytesBefore }: CompactionPlan,
  change: Compaction,
  asked: Pick<EventDraftOf<'compacted'>, 'attempt' | 'usage' | 'cost'> = {},
): Promise<StepResult> {
  const { id: turnId, step } = session.currentTurn
  const { fixedBytes } = requestFacts(models, session)
  const requestBytesAfter = fixedBytes + conversationBytes(compacted(session.fold.entries, change))
  if (requestBytesAfter >= requestBytesBefore) return cannotShorten(turnId) // I2
  await session.append({
    type: 'compacted',
    turnId,
    step,
    fromStep,
    toStep,
    droppedResults: results.length,
    summaryBytes: Buffer.byteLength(change.summary?.text ?? ''),
    requestBytesBefore,
    requestBytesAfter,
    ...change,
    ...asked,
  }) // I1
  return CONTINUE
}

function cannotShorten(turnId: string): StepResult {
  const decision = { action: 'stop', because: 'cannot_compact' } as const
  return giveUp(withDecision(new Fault('model_context_overflow', { turnId }), decision).report, decision)
}

type SummaryAnswer = Pick<Extract<TryEvent, { type: 'done' }>['record'], 'usage'> & { readonly text: string }

/** Keeps the text of a summary until it is complete: no one reads half of it, and an attempt that breaks off leaves nothing. */
class SummaryWriter implements AttemptWriter {
  readonly #session: OwnedSession
  #text = ''
  /** The whole summary, once it is proven complete. */
  answer: SummaryAnswer | undefined
  readonly calling = undefined

  constructor(session: OwnedSession) {
    this.#session = session
  }

  write(event: Exclude<TryEvent, { type: 'failed' }>): Promise<void> {
    if (event.type === 'text-delta') this.#text += event.text
    if (event.type === 'done') this.answer = { text: this.#text, usage: event.record.usage }
    return Promise.resolve()
  }

  async flush(...events: readonly EventDraft[]): Promise<void> {
    if (events.length > 0) await this.#session.append(...events)
  }

  async drop(): Promise<void> {
    this.#text = ''
  }
}
