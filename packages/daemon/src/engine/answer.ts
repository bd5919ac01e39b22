/**
 * Makes one attempt at an answer. Drives the answer machine through the journal: the turn's fold is its state, and what
 * follows a failure is journalled before it happens, so a daemon that recovers the turn continues exactly there.
 *
 * I1  A failed attempt is in the journal together with what follows it: the same question again, a continuation of kept text,
 *     the next model of the list.
 * I2  Only `nextRung` says what follows, from the state that the journal folds into.
 */
import { Fault, faultFrom, isFault } from '@breakfall/faults'
import {
  type AnswerRequest,
  canContinue,
  type Fallback,
  nextRung,
  shownText,
  takesPrefill,
  type Target,
  targetsOf,
  type TryOptions,
  type Usage,
} from '@breakfall/model'
import type { LocalModelRequest } from '../model-server.ts'
import type { ModelEndpoint } from '../options.ts'
import type { TurnModel } from '../providers/providers.ts'
import { resultsToDrop, toMessages } from '../turn/messages.ts'
import { deadlineAt } from '../turn/next.ts'
import { AnswerWriter, discardDrafts, retryDraft } from './answer-writer.ts'
import type { LiveSession } from './live-session.ts'
import { CONTINUE, type Performed } from './performed.ts'
import type { Ports } from './ports.ts'
import { waitForServer } from './served-wait.ts'
import { toolSpecs } from './tools.ts'
import { turnOpening } from './turn-opening.ts'

export async function performAnswer(ports: Ports, session: LiveSession, attempt: number): Promise<Performed> {
  const turn = session.currentTurn
  const model = await ports.providers.forTurn(session.id, session.data, turn)
  const targets = targetsOf(requestOf(ports, session, model.endpoint), fallbacksOf(model))
  const index = Math.min(turn.answer.target, targets.length - 1) // the list may have become shorter since
  const target = targets[index]
  if (target === undefined) throw new Error('a list of models is never empty')
  const kept = shownText(turn.answer)
  if (kept !== '' && !canContinue(target, kept)) return takeBack(session)
  const asked = { attempt, target, fallbacks: targets.length - 1 - index }
  if (index === 0 && model.missingKey !== undefined) return failedBefore(ports, session, asked, model.missingKey)
  const local = isServed(model, index) ? model.served : undefined
  if (local === undefined) return ask(ports, session, asked, undefined)
  let served: LocalModelRequest
  try {
    served = await waitForServer(session, local)
  } catch (thrown) {
    if (session.signal.aborted || !isFault(thrown)) throw thrown
    return failedBefore(ports, session, asked, thrown) // the server was given up
  }
  using request = served
  return await ask(ports, session, asked, request)
}

// ---- details, in the order they are used above ----

function requestOf(ports: Ports, session: LiveSession, endpoint: ModelEndpoint): AnswerRequest {
  const { baseUrl, name, api, apiKey, profile } = endpoint
  return {
    baseUrl,
    model: name,
    messages: toMessages(session.fold, session.fold.system ?? turnOpening(ports, session).system),
    tools: toolSpecs(session.data.tools),
    api,
    apiKey,
    profile,
  }
}

const fallbacksOf = ({ fallback }: TurnModel): readonly Fallback[] =>
  fallback.map(({ name, ...rest }) => (name === undefined ? rest : { ...rest, model: name }))

/** The attempt cannot even be sent. */
function failedBefore(ports: Ports, session: LiveSession, asked: Asked, fault: Fault): Promise<Performed> {
  const writer = new AnswerWriter(ports, session, asked.attempt)
  return failed(ports, session, asked, writer, { fault, diverged: false, contentStarted: false })
}

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

/** A fallback without a base URL is another model at the first model's server. */
const isServed = ({ fallback }: TurnModel, index: number): boolean =>
  index === 0 || fallback[index - 1]?.baseUrl === undefined

type Asked = { readonly attempt: number; readonly target: Target; readonly fallbacks: number }

async function ask(
  ports: Ports,
  session: LiveSession,
  asked: Asked,
  served: LocalModelRequest | undefined,
): Promise<Performed> {
  const { attempt, target } = asked
  const request = served === undefined ? target.request : { ...target.request, baseUrl: served.baseUrl }
  const writer = new AnswerWriter(ports, session, attempt)
  try {
    for await (const event of ports.tryAnswer(request, optionsOf(ports, session, attempt, served))) {
      served?.hold() // while the journal takes the event, the server is not to blame for silence
      ports.failpoint(`answer:${event.type}`)
      if (event.type === 'failed') {
        const { diverged, contentStarted, record } = event
        const failure = { fault: faultFrom(event.fault), diverged, contentStarted, usage: record.usage, served }
        return await failed(ports, session, asked, writer, failure)
      }
      await writer.write(event)
      served?.progress()
    }
    return CONTINUE
  } finally {
    writer.drop()
  }
}

function optionsOf(
  ports: Ports,
  session: LiveSession,
  attempt: number,
  served: LocalModelRequest | undefined,
): TryOptions {
  const { policy, signal } = session
  const turn = session.currentTurn
  const kept = shownText(turn.answer)
  const options = { attempt, kept, policy, now: ports.now, deadlineAt: deadlineAt(turn, policy) }
  if (served === undefined) return { ...options, signal }
  return { ...options, signal: AbortSignal.any([signal, served.signal]), onBytes: () => served.progress() }
}

type Failure = {
  readonly fault: Fault
  readonly diverged: boolean
  readonly contentStarted: boolean
  readonly usage?: Usage
  readonly served?: LocalModelRequest | undefined
}

async function failed(
  ports: Ports,
  session: LiveSession,
  { attempt, target, fallbacks }: Asked,
  writer: AnswerWriter,
  { fault: seen, diverged, contentStarted, usage, served }: Failure,
): Promise<Performed> {
  await writer.flush()
  if (session.signal.aborted) return CONTINUE // the cancel or shutdown that stopped the turn also ends it, and shown text stays
  const fault = (await served?.judge(seen)) ?? seen
  const turn = session.currentTurn
  const droppable = resultsToDrop(session.fold)
  const ladder = {
    policy: session.policy,
    canContinue: takesPrefill(target),
    canTakeBack: true,
    canReplay: true,
    fallbacks,
    canCompact: droppable.length > 0,
    canPark: true,
    deadlineAt: deadlineAt(turn, session.policy),
    dice: ports.dice(),
  }
  const failure = { attempt, fault: fault.with({ turnId: turn.id }), diverged, contentStarted }
  const rung = nextRung(turn.answer, failure, ladder, ports.now()) // I2
  const discards = discardDrafts(turn, rung.discards, rung.fault)
  if (rung.action === 'park' || rung.action === 'stop') {
    await writer.flush(...discards)
    return { kind: 'give-up', fault: rung.fault, decision: rung.decision }
  }
  const compacted = rung.action === 'compact' ? droppable : undefined
  await writer.flush(...discards, retryDraft(turn, rung, usage, compacted)) // I1
  return CONTINUE
}
