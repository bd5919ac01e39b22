/** Makes one attempt at the answer of a step. */
import { Fault } from '@breakfall/faults'
import { canContinue, shownText, takesPrefill } from '@breakfall/model/internal'
import { planCompaction } from '../turn/compaction.ts'
import { conversationBytes, toMessages } from '../turn/messages.ts'
import { AnswerWriter, discardDrafts } from './answer-writer.ts'
import { askModel, requestFacts, systemOf, targetFor } from './ask-model.ts'
import type { LiveSession } from './live-session.ts'
import { CONTINUE, type Performed } from './performed.ts'
import type { Ports } from './ports.ts'
import { toolsOnOffer } from './offered.ts'

export async function performAnswer(ports: Ports, session: LiveSession, attempt: number): Promise<Performed> {
  const offered = await toolsOnOffer(ports, session)
  const { fold } = session
  const kept = shownText(session.currentTurn.answer)
  const messages = toMessages(fold.entries, systemOf(ports, session))
  const request = { messages, tools: offered.specs, promptCache: true }
  const chosen = await targetFor(ports, session, request)
  if (kept !== '' && !canContinue(chosen.target, kept)) return takeBack(session)
  const facts = requestFacts(ports, session)
  const requestBytes = facts.fixedBytes + conversationBytes(fold.entries)
  return askModel(ports, session, chosen, {
    attempt,
    kept,
    requestBytes,
    writer: new AnswerWriter(ports, session, attempt, {
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
async function takeBack(session: LiveSession): Promise<Performed> {
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
