/**
 * Makes one attempt at asking a model: for a step's answer, or for a summary. Drives the answer machine through the journal: the
 * turn's fold is its state, and what follows a failure is journalled before it happens, so a daemon that recovers the turn
 * continues exactly there.
 *
 * I1  A failed attempt is in the journal together with what follows it: the same question again, a continuation of kept text,
 *     a shorter conversation, the next model of the list.
 * I2  Only `nextRung` says what follows, from the state that the journal folds into.
 */
import { Fault, faultFrom, isFault } from '@breakfall/faults'
import { isCutAtLimit } from '@breakfall/faults/internal'
import type { AnswerRequest, Fallback, TryEvent, TryOptions, Usage } from '@breakfall/model'
import {
  canContinue,
  ladderOf,
  nextRung,
  shownText,
  takesPrefill,
  type Target,
  targetsOf,
} from '@breakfall/model/internal'
import { planCompaction } from '../turn/compaction.ts'
import type { LocalModel, LocalModelRequest } from '../model-server.ts'
import type { Providers, TurnModel } from '../providers/providers.ts'
import { type Price, priceOf, usedOf } from '../turn/cost.ts'
import { conversationBytes, fixedBytes, toMessages } from '../turn/messages.ts'
import { deadlineAt } from '../turn/next.ts'
import type { RequestFacts } from '../turn/state.ts'
import type { EventDraftOf } from '@breakfall/wire'
import { AnswerWriter, type AttemptWriter, discardDrafts, retryDraft } from './answer-writer.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { CONTINUE, type StepResult } from '../turn/step-result.ts'
import { waitForServer } from './served-wait.ts'
import { openingOf, type OpeningParts } from './turn-opening.ts'

/** What models are asked with. */
export type ModelPort = OpeningParts & {
  /** The model servers of the sessions. Their configuration is read again for every answer. */
  readonly providers: Providers
  /** One attempt at an answer. The engine decides what follows. */
  readonly tryAnswer: (request: AnswerRequest, options: TryOptions) => AsyncIterable<TryEvent>
}

/** The model that is asked now, and the request to it. */
export type Chosen = {
  readonly target: Target
  /** Models left in the list after it. */
  readonly fallbacks: number
  /** The first of them. */
  readonly next: NonNullable<EventDraftOf<'retry'>['to']> | undefined
  /** The server that this daemon runs, if it is asked. */
  readonly local: LocalModel | undefined
  /** What it costs, if that is known. */
  readonly price: Price | undefined
  /** The key for it is gone. */
  readonly missingKey: Fault | undefined
  /** The variable that holds its key, if it is known. */
  readonly keyVariable: string | undefined
}

export type Question = {
  readonly attempt: number
  /** Text that the attempt continues. */
  readonly kept: string
  readonly requestBytes: number
  readonly writer: AttemptWriter
  /** The model can continue an unfinished text, and the text is shown. */
  readonly canContinue: boolean
  /** A shorter request is possible. */
  readonly canCompact: () => boolean
}

/** Makes one attempt at the answer of a step. */
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

export async function targetFor(
  models: ModelPort,
  session: OwnedSession,
  request: Pick<AnswerRequest, 'messages' | 'tools' | 'promptCache'>,
): Promise<Chosen> {
  const model = await models.providers.forTurn(session.id, session.data, session.currentTurn)
  const { baseUrl, name, api, apiKey, profile, background, outputTokensMax: maxTokens } = model.endpoint
  const first = { ...request, baseUrl, model: name, api, apiKey, profile, background, maxTokens }
  const targets = targetsOf(first, fallbacksOf(model))
  const index = targetIndex(session, targets.length)
  const target = targets[index]
  const endpoint = (index === 0 ? model.endpoint : model.fallback[index - 1]) ?? {}
  if (target === undefined) throw new Error('a list of models is never empty')
  return {
    target,
    fallbacks: targets.length - 1 - index,
    next: nextTarget(models, targets[index + 1]),
    local: isServed(model, index) ? model.served : undefined,
    price: priceOf(endpoint, target.api), // a fallback at the same server has its own, because it is another model
    missingKey: index === 0 ? model.missingKey : undefined,
    keyVariable: endpoint.apiKeyVariable,
  }
}

/** The name of the model that a step asks first. */
export function modelNow(models: ModelPort, session: OwnedSession): string {
  const windows = models.providers.windowsOf(session.data, session.currentTurn)
  return windows[targetIndex(session, windows.length)]?.model ?? ''
}

/** What `next` has to know about the request, from the configuration that was read last. */
export function requestFacts(models: ModelPort, session: OwnedSession): RequestFacts {
  const { turn } = session.fold
  if (turn === null || !turn.answer.isAnswering) return NO_REQUEST
  const windows = models.providers.windowsOf(session.data, turn)
  const window = windows[targetIndex(session, windows.length)]
  return {
    model: window?.model ?? '',
    contextTokens: window?.contextTokens ?? null,
    fixedBytes: fixedBytesOf(models, session),
  }
}

export async function askModel(
  models: ModelPort,
  session: OwnedSession,
  chosen: Chosen,
  question: Question,
): Promise<StepResult> {
  if (chosen.missingKey !== undefined) return failedBefore(session, chosen, question, chosen.missingKey)
  if (chosen.local === undefined) return ask(models, session, chosen, question, undefined)
  let served: LocalModelRequest
  try {
    served = await waitForServer(session, chosen.local)
  } catch (thrown) {
    if (session.signal.aborted || !isFault(thrown)) throw thrown
    return failedBefore(session, chosen, question, thrown) // the server was given up
  }
  using request = served
  return await ask(models, session, chosen, question, request)
}

// ---- details, in the order they are used above ----

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

/** The system prompt of the turn. Journals of earlier versions do not have it. */
export const systemOf = (models: ModelPort, session: OwnedSession): string =>
  session.fold.system ?? openingOf(models, session).system

const NO_REQUEST: RequestFacts = { model: '', contextTokens: null, fixedBytes: 0 }

/** The list may have become shorter since. */
const targetIndex = ({ fold }: OwnedSession, targets: number): number =>
  Math.min(fold.turn?.answer.target ?? 0, targets - 1)

/** A limit on the output belongs to a model, so another model does not get it. */
const fallbacksOf = ({ fallback }: TurnModel): readonly Fallback[] =>
  fallback.map(({ name, outputTokensMax: maxTokens, ...rest }) => {
    const limited = name === undefined && rest.baseUrl === undefined && maxTokens === undefined ? {} : { maxTokens }
    return { ...rest, ...limited, ...(name === undefined ? {} : { model: name }) }
  })

function nextTarget(models: ModelPort, target: Target | undefined): Chosen['next'] {
  if (target === undefined) return undefined
  const { api, request } = target
  return { model: request.model, provider: models.providers.viewAt(request.baseUrl, api) }
}

/** A fallback without a base URL is another model at the first model's server. */
const isServed = ({ fallback }: TurnModel, index: number): boolean =>
  index === 0 || fallback[index - 1]?.baseUrl === undefined

function fixedBytesOf(models: ModelPort, session: OwnedSession): number {
  const system = systemOf(models, session)
  const { specs } = models.tools.offered(session)
  return session.fixedBytes.get([system, specs], () => fixedBytes(system, specs))
}

/** The attempt cannot even be sent. */
function failedBefore(session: OwnedSession, chosen: Chosen, question: Question, fault: Fault): Promise<StepResult> {
  return failed(session, chosen, question, { fault, diverged: false, contentStarted: false })
}

async function ask(
  models: ModelPort,
  session: OwnedSession,
  chosen: Chosen,
  question: Question,
  served: LocalModelRequest | undefined,
): Promise<StepResult> {
  const { request: plain } = chosen.target
  const { writer } = question
  const request = served === undefined ? plain : { ...plain, baseUrl: served.baseUrl }
  const turnId = session.currentTurn.id
  const chat = session.observer.traces.chat(session.currentTurn, chosen.target)
  try {
    for await (const event of models.tryAnswer(request, {
      ...optionsOf(session, question, served),
      trace: chat,
    })) {
      if (!session.gate.isOpen) await session.gate.pass(session.signal) // a suspended daemon reads no further
      served?.hold() // while the journal takes the event, the server is not to blame for silence
      session.observer.reached(`answer:${event.type}`)
      if (event.type === 'failed') {
        const { diverged, contentStarted, record } = event
        const failure = { fault: faultFrom(event.fault), diverged, contentStarted, usage: record.usage, served }
        return await failed(session, chosen, question, failure)
      }
      await writer.write(event)
      served?.progress()
      if (event.type === 'done') {
        chat?.end({ finish: event.finish, usage: event.record.usage })
        session.observer.traces.answered(turnId)
      }
    }
    return CONTINUE
  } finally {
    await writer.drop()
  }
}

function optionsOf(
  session: OwnedSession,
  { attempt, kept }: Question,
  served: LocalModelRequest | undefined,
): TryOptions {
  const { policy, signal } = session
  const turn = session.currentTurn
  const options = {
    attempt,
    kept,
    lastFault: turn.answer.lastFault,
    policy,
    now: session.clock.now,
    deadlineAt: deadlineAt(turn, policy),
  }
  if (served === undefined) return { ...options, signal }
  return { ...options, signal: AbortSignal.any([signal, served.signal]), onBytes: () => served.progress() }
}

export type Failure = {
  readonly fault: Fault
  readonly diverged: boolean
  readonly contentStarted: boolean
  readonly usage?: Usage
  readonly served?: LocalModelRequest | undefined
}

export async function failed(
  session: OwnedSession,
  { target, fallbacks, price, next, keyVariable }: Chosen,
  { attempt, writer, canContinue, canCompact, requestBytes }: Question,
  { fault: seen, diverged, contentStarted, usage, served }: Failure,
): Promise<StepResult> {
  await writer.flush()
  const used = usage === undefined ? undefined : usedOf(usage, price)
  session.attemptUsed(used)
  if (session.signal.aborted) return CONTINUE // the cancel or shutdown that stopped the turn also ends it, and shown text stays
  const judged = (await served?.judge(seen)) ?? seen
  const fault = withLimitAdvice(withKeyAdvice(judged, keyVariable, target.request.apiKey !== undefined))
  const turn = session.currentTurn
  const ladder = ladderOf({
    policy: session.policy,
    canContinue,
    fallbacks,
    canCompact: canCompact(),
    canTell: writer.calling !== undefined,
    canPark: true,
    deadlineAt: deadlineAt(turn, session.policy),
    dice: session.clock.dice(),
  })
  const failure = { attempt, fault: fault.with({ turnId: turn.id }), diverged, contentStarted }
  const rung = nextRung(turn.answer, failure, ladder, session.clock.now()) // I2
  const discards = discardDrafts(turn, rung.discards, rung.fault)
  if (rung.action === 'park' || rung.action === 'stop') {
    await writer.flush(...discards)
    return { kind: 'give-up', fault: rung.fault, decision: rung.decision }
  }
  const overflow = rung.action === 'compact' ? { model: target.request.model, requestBytes } : undefined
  const to = rung.action === 'fallback' ? next : undefined
  const told = rung.tells && writer.calling !== undefined ? cutCall(writer.calling, usage) : undefined
  await writer.flush(...discards, retryDraft(turn, rung, used, { overflow, to, told })) // I1
  return CONTINUE
}

/** What the model reads about a call that was cut off. */
function cutCall(tool: string, usage: Usage | undefined): NonNullable<EventDraftOf<'retry'>['told']> {
  const { value = null } = usage?.outputTokens ?? {}
  const after = value === null ? '' : ` after about ${value} tokens`
  const text = `Not run: this call was cut off at the output limit${after}, before its arguments were complete, and no call of that answer was run. Write less at once. Split the work into several smaller calls: create a long file with its first part, then add the rest part by part.`
  return { tool, text }
}

const withLimitAdvice = (fault: Fault): Fault =>
  isCutAtLimit(fault.report)
    ? fault.with({ message: { advice: 'Ask for smaller steps, or raise outputTokensMax for this model.' } })
    : fault

/** A server that refuses the key does not know its origin. */
function withKeyAdvice(fault: Fault, variable: string | undefined, hasKey: boolean): Fault {
  const isKnown = fault.category !== 'model_auth_failed' || fault.report.reason !== undefined || variable === undefined
  if (isKnown) return fault
  if (hasKey) return fault.with({ message: { advice: `Set a valid key in ${variable}.` } })
  const happened = `The model provider needs a key, and ${variable} is not set.`
  return fault.with({ message: { happened, advice: `Set ${variable}, or store a key: breakfall login.` } })
}
