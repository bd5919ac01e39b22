/** Makes one attempt at the answer of a step. */
import { Fault } from '@breakfall/faults'
import { canContinue, shownText, takesPrefill } from '@breakfall/model/internal'
import { planCompaction } from '../turn/compaction.ts'
import { conversationBytes, toMessages } from '../turn/messages.ts'
import { AnswerWriter, discardDrafts } from './answer-writer.ts'
import { askModel, type ModelPort, requestFacts, systemOf, targetFor } from './ask-model.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { CONTINUE, type StepResult } from '../turn/step-result.ts'

export async function performAnswer(models: ModelPort, session: OwnedSession, attempt: number): Promise<StepResult> {
  const offered = await models.tools.onOffer(session)
  const { fold } = session
  const kept = shownText(session.currentTurn.answer)
  const messages = toMessages(fold.entries, systemOf(models, session))
  const request = { messages, tools: offered.specs, promptCache: true }
  const chosen = await targetFor(models, session, request)
  if (kept !== '' && !canContinue(chosen.target, kept)) return takeBack(session)
  const facts = requestFacts(models, session)
  const requestBytes = facts.fixedBytes + conversationBytes(fold.entries)
  return askModel(models, session, chosen, {
    attempt,
    kept,
    requestBytes,
    writer: new AnswerWriter(models.tools, session, attempt, {
      requestBytes,
      definitions: offered.definitions,
      price: chosen.price,
    }),
    canContinue: takesPrefill(chosen.target),
    canCompact: () => planCompaction(session.fold, facts) !== null,
  })
}

// ---- details ----

/** The configured model cannot continue the kept text: the text is discarded, and the model is asked for the whole answer. */
async function takeBack(session: OwnedSession): Promise<StepResult> {
  const turn = session.currentTurn
  const because = new Fault('model_stream_interrupted', {
    turnId: turn.id,
    message: {
      happened: 'The model that is configured now cannot continue an interrupted answer.',
      action: 'Breakfall will ask for the whole answer.',
      advice: '',
    },
  }).report
  await session.append(...discardDrafts(turn, turn.answer.parts, because))
  return CONTINUE
}
