/**
 * Folds a session's events into its state. Pure, total, and forgiving towards newer journals: an event that it does not
 * know changes nothing.
 *
 * I1  The same events give the same state, whoever folds them and however often they were interrupted in between.
 * I2  What a model is told about a turn follows from its events alone: every tool call in `entries` has a result before the
 *     next prompt, also where the turn was cut off.
 */
import { faultFrom } from '@breakfall/faults'
import { type AnyEvent, isKnownEvent, type SessionEventOf } from '@breakfall/wire'
import type { Call, CallRequest, Entry, Part, SessionFold, TurnFold } from './state.ts'
import { NO_USAGE, UNCOUNTED } from './state.ts'
import { addUsage } from './usage.ts'

export function reduce(state: SessionFold, event: AnyEvent): SessionFold {
  if (!isKnownEvent(event)) return state
  if (event.type === 'turn-queued') {
    return { ...state, queue: [...state.queue, { id: event.turnId, prompt: event.prompt, at: event.at }] }
  }
  if (event.type === 'turn-start') return started(state, event)
  if (event.type === 'turn-end' || event.type === 'turn-error') return ended(state, event)
  const { turn } = state
  if (turn === null || turn.id !== event.turnId) return state
  switch (event.type) {
    case 'step-start':
      return withTurn(state, stepStarted(turn, event.step))
    case 'text-delta':
    case 'reasoning-delta':
      return withTurn(state, extended(turn, event))
    case 'part-discarded':
      return withTurn(state, { ...turn, parts: turn.parts.filter((part) => !isSamePart(part, event)) })
    case 'tool-draft':
      return withTurn(state, { ...seen(turn, event.attempt), retryAt: null })
    case 'tool-call':
      return called(state, turn, event)
    case 'tool-output':
      return withTurn(
        state,
        updatedCall(turn, event.callId, (call) => outputGrown(call, event)),
      )
    case 'tool-result':
      return resulted(state, turn, event)
    case 'retry':
      return retried(state, turn, event)
    case 'parked':
      return withTurn(state, parked(turn, event))
    case 'resumed':
      return withTurn(state, resumed(turn, event))
    case 'taken-over':
      return withTurn(state, takenOver(turn))
  }
}

// ---- details, in the order they are used above ----

const withTurn = (state: SessionFold, turn: TurnFold): SessionFold => ({ ...state, turn })

function started(state: SessionFold, event: SessionEventOf<'turn-start'>): SessionFold {
  const turn: TurnFold = {
    id: event.turnId,
    prompt: event.prompt,
    startedAt: event.at,
    step: 0,
    isAnswering: false,
    attempt: 0,
    asked: 0,
    attemptsSpent: 0,
    failedAs: [],
    target: 0,
    keptAttempt: 0,
    prefillRefused: false,
    parts: [],
    calls: [],
    parked: null,
    retryAt: null,
    budget: { failures: 0, waitedMs: 0, parks: 0, parkedMs: 0, compacted: false },
    usage: NO_USAGE,
    attempts: 0,
    faultsSurvived: 0,
    faultsOpen: 0,
    takeovers: 0,
  }
  return {
    ...state,
    turn,
    queue: state.queue.filter((queued) => queued.id !== event.turnId),
    entries: [...state.entries, { role: 'user', text: event.prompt }],
  }
}

function stepStarted(turn: TurnFold, step: number): TurnFold {
  return {
    ...turn,
    step,
    isAnswering: true,
    attempt: 0,
    asked: 1,
    attemptsSpent: 0,
    failedAs: [],
    keptAttempt: 0,
    prefillRefused: false,
    parts: [],
    calls: [],
    retryAt: null,
    attempts: turn.attempts + 1,
    faultsOpen: 0,
    takeovers: 0,
  }
}

function extended(turn: TurnFold, event: SessionEventOf<'text-delta'> | SessionEventOf<'reasoning-delta'>): TurnFold {
  const at = turn.parts.findIndex((part) => isSamePart(part, event))
  const kind = event.type === 'text-delta' ? 'text' : 'reasoning'
  const { step, attempt, part, text } = event
  const known = turn.parts[at]
  const parts: Part[] =
    known === undefined
      ? [...turn.parts, { step, attempt, part, kind, text }]
      : turn.parts.with(at, { ...known, text: known.text + text })
  return { ...seen(turn, attempt), parts, retryAt: null }
}

/** Something is known of this attempt. */
const seen = (turn: TurnFold, attempt: number): TurnFold => ({
  ...asking(turn, attempt),
  attempt: Math.max(turn.attempt, attempt),
})

/** This attempt is made, or is about to be: each is counted once, however often that is said. */
function asking(turn: TurnFold, attempt: number): TurnFold {
  const more = Math.max(0, attempt - turn.asked)
  return more === 0 ? turn : { ...turn, asked: turn.asked + more, attempts: turn.attempts + more }
}

/** Whoever goes on with an answer asks for it once more. */
const askingAgain = (turn: TurnFold): TurnFold => (turn.isAnswering ? asking(turn, turn.attempt + 1) : turn)

type PartName = { readonly step: number; readonly attempt: number; readonly part: string }

const isSamePart = (a: PartName, b: PartName): boolean =>
  a.part === b.part && a.attempt === b.attempt && a.step === b.step

/** The first call of a step proves that its answer is whole: calls are journalled together, and only then. */
function called(state: SessionFold, turn: TurnFold, event: SessionEventOf<'tool-call'>): SessionFold {
  const { callId, tool, arguments: given, step, execId } = event
  const request: CallRequest = { callId, tool, arguments: given }
  const call: Call = { ...request, step, execId, output: '', execSeq: 0, execOffsets: {}, result: null }
  const entries = turn.isAnswering
    ? [...state.entries, { role: 'assistant', text: textOf(turn), calls: [request] } as const]
    : state.entries.with(-1, withCall(state.entries.at(-1), request))
  const usage = turn.isAnswering ? addUsage(turn.usage, event.usage) : turn.usage
  const gotOn = { isAnswering: false, retryAt: null, takeovers: 0, faultsOpen: 0 }
  const next = { ...turn, ...gotOn, calls: [...turn.calls, call], usage }
  return { ...state, entries, turn: next }
}

function withCall(entry: Entry | undefined, request: CallRequest): Entry {
  if (entry?.role !== 'assistant') return { role: 'assistant', text: '', calls: [request] }
  return { ...entry, calls: [...entry.calls, request] }
}

export function textOf(turn: TurnFold): string {
  return turn.parts
    .filter((part) => part.kind === 'text')
    .map((part) => part.text)
    .join('')
}

function updatedCall(turn: TurnFold, callId: string, change: (call: Call) => Call): TurnFold {
  const at = turn.calls.findIndex((call) => call.callId === callId)
  const call = turn.calls[at]
  return call === undefined ? turn : { ...turn, calls: turn.calls.with(at, change(call)), retryAt: null }
}

function outputGrown(call: Call, event: SessionEventOf<'tool-output'>): Call {
  const { execSeq, execOffsets } = event
  return {
    ...call,
    output: call.output + event.text,
    execSeq: Math.max(call.execSeq, execSeq ?? 0),
    execOffsets: { ...call.execOffsets, ...execOffsets },
  }
}

function resulted(state: SessionFold, turn: TurnFold, event: SessionEventOf<'tool-result'>): SessionFold {
  // Output is kept only while the call runs: the result has what the model is told.
  const next = updatedCall(turn, event.callId, (call) => ({ ...call, output: '', result: event }))
  return {
    ...state,
    entries: [...state.entries, { role: 'tool', callId: event.callId, text: event.text }],
    turn: { ...next, takeovers: 0 },
  }
}

function retried(state: SessionFold, turn: TurnFold, event: SessionEventOf<'retry'>): SessionFold {
  const isAnswer = event.action !== 'resolve'
  const isElsewhere = event.action === 'fallback'
  const next: TurnFold = {
    ...(isAnswer ? askingAgain(seen(turn, event.attempt)) : turn),
    attemptsSpent: isElsewhere ? 0 : turn.attemptsSpent + (isAnswer ? 1 : 0),
    failedAs: isElsewhere ? [] : isAnswer ? [...turn.failedAs, event.fault.category] : turn.failedAs,
    target: turn.target + (isElsewhere ? 1 : 0),
    keptAttempt: event.action === 'resume' ? event.attempt : turn.keptAttempt,
    prefillRefused: turn.prefillRefused || event.prefillRefused === true,
    retryAt: Date.parse(event.nextAt),
    faultsSurvived: turn.faultsSurvived + 1,
    faultsOpen: turn.faultsOpen + 1,
    usage: addUsage(turn.usage, event.usage),
    budget: {
      ...turn.budget,
      failures: turn.budget.failures + 1,
      waitedMs: turn.budget.waitedMs + event.delayMs,
      compacted: turn.budget.compacted || event.compacted !== undefined,
    },
  }
  const dropped = event.compacted ?? []
  return {
    ...state,
    turn: next,
    dropped: dropped.length === 0 ? state.dropped : new Set([...state.dropped, ...dropped]),
  }
}

/** A daemon that shuts down parks its turns; that is no failure and costs no park. */
export const isHandOver = (category: string): boolean => category === 'shutting_down'

function parked(turn: TurnFold, event: SessionEventOf<'parked'>): TurnFold {
  const { at: since, resumeAt } = event
  const fault = faultFrom(event.fault).report
  const counts = isHandOver(fault.category) ? 0 : 1
  const { retry } = fault // of the last attempt before the park
  return {
    ...(turn.isAnswering && retry !== undefined ? seen(turn, retry.attempt) : turn),
    parked: { fault, since, resumeAt },
    retryAt: null,
    faultsSurvived: turn.faultsSurvived + counts,
    faultsOpen: turn.faultsOpen + counts,
    budget: {
      ...turn.budget,
      failures: turn.budget.failures + counts,
      parks: turn.budget.parks + counts,
    },
  }
}

/** What a model was asked for when the daemon before this one died has cost tokens that nobody counted. */
function takenOver(turn: TurnFold): TurnFold {
  const usage = turn.isAnswering && turn.parts.length > 0 ? addUsage(turn.usage, UNCOUNTED) : turn.usage
  const [faultsSurvived, faultsOpen] = [turn.faultsSurvived + 1, turn.faultsOpen + 1]
  return { ...askingAgain(turn), usage, takeovers: turn.takeovers + 1, faultsSurvived, faultsOpen }
}

/** What was waited for is there: the step has its tries again, from the first model. A hand-over was no wait for anything. */
function resumed(turn: TurnFold, event: SessionEventOf<'resumed'>): TurnFold {
  const waited = turn.parked === null ? 0 : Math.max(0, Date.parse(event.at) - Date.parse(turn.parked.since))
  const isFresh = turn.parked !== null && !isHandOver(turn.parked.fault.category)
  return {
    ...askingAgain(turn),
    parked: null,
    ...(isFresh ? { attemptsSpent: 0, failedAs: [], target: 0 } : {}),
    budget: { ...turn.budget, parkedMs: turn.budget.parkedMs + waited },
  }
}

function ended(state: SessionFold, event: SessionEventOf<'turn-end'> | SessionEventOf<'turn-error'>): SessionFold {
  const { turn } = state
  if (turn === null || turn.id !== event.turnId) {
    const queued = state.queue.find((entry) => entry.id === event.turnId)
    if (queued === undefined) return state
    return { ...state, queue: state.queue.filter((entry) => entry !== queued), ended: { turn: queued, end: event } }
  }
  const entries: Entry[] = [...state.entries]
  if (event.type === 'turn-end') {
    if (event.text !== '') entries.push({ role: 'assistant', text: event.text, calls: [] })
  } else {
    const text = textOf(turn)
    if (turn.isAnswering && text !== '') entries.push({ role: 'assistant', text, calls: [] })
    for (const call of turn.calls) {
      if (call.result === null) entries.push({ role: 'tool', callId: call.callId, text: NOT_DONE }) // I2
    }
  }
  return { ...state, entries, turn: null, ended: { turn, end: event } }
}

const NOT_DONE = 'The turn ended before this call had a result.'
