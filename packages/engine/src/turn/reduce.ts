/**
 * Folds a session's events into its state. Pure, total, and tolerant of newer journals: an event of an unknown type changes
 * nothing.
 *
 * I1  The same events give the same state, however often the daemon was interrupted in between.
 * I2  What a model reads about a turn follows from its events alone: every tool call in `entries` has a result before the next
 *     prompt, even if the turn was interrupted.
 */
import { createHash } from 'node:crypto'
import { faultFrom } from '@breakfall/faults'
import { initialAnswer, shownText } from '@breakfall/model/internal'
import { type AnyEvent, isKnownEvent, type SessionEventOf } from '@breakfall/wire'
import { FIRST_STATUS, firstRecord, questionOf, recordAfter, statusAfter } from '@breakfall/wire/turn'
import { advanced } from './answer-events.ts'
import { addUsage, addCost, NO_COST } from './cost.ts'
import type { Approval, ToolCall, ToolCallRequest, Entry, EntryPlace, SessionFold, TurnFold } from './state.ts'
import { NO_USAGE, UNCOUNTED } from './state.ts'
import { compacted } from './compaction.ts'
import { withCount, withRefusal } from './window.ts'

export function reduce(state: SessionFold, event: AnyEvent): SessionFold {
  if (!isKnownEvent(event)) return state
  if (event.type === 'turn-queued') {
    return {
      ...state,
      queue: [
        ...state.queue,
        {
          id: event.turnId,
          prompt: event.prompt,
          at: event.at,
          seq: event.seq,
          isBehind: event.behind !== undefined,
          traceparent: event.traceparent,
        },
      ],
    }
  }
  if (event.type === 'turn-start') return started(state, event)
  if (event.type === 'turn-end' || event.type === 'turn-error') return ended(state, event)
  if (event.type === 'tool-output' && event.late !== undefined) return answeredLate(state, event)
  if (state.turn === null || state.turn.id !== event.turnId) return state
  const { isAnswering } = state.turn.answer
  const turn = {
    ...state.turn,
    answer: advanced(state.turn.answer, event),
    status: statusAfter(state.turn.status, event),
    record: recordAfter(state.turn.record, event),
  }
  switch (event.type) {
    case 'step-start':
      return withTurn(state, stepStarted(turn, event.step))
    case 'text-delta':
    case 'reasoning-delta':
    case 'tool-draft':
    case 'part-discarded':
      return withTurn(state, turn)
    case 'tool-call':
      return called(state, turn, event, isAnswering)
    case 'tool-output':
      return withTurn(
        state,
        updatedCall(turn, event.callId, (call) => {
          if (event.sent !== undefined) return sent(call, event.sent)
          return event.file === undefined ? outputGrown(call, event) : { ...call, file: event.file }
        }),
      )
    case 'tool-result':
      return resulted(state, turn, event)
    case 'retry':
      return retried(state, turn, event)
    case 'compacted':
      return shortened(state, turn, event)
    case 'parked':
      return withTurn(state, parked(turn, event))
    case 'resumed':
      return withTurn(state, resumed(turn))
    case 'taken-over':
      return withTurn(state, takenOver(turn))
    case 'box-moved':
    case 'model-server':
      return state
    case 'approval-requested':
      return withTurn(
        state,
        updatedCall(turn, event.callId, (call) => ({ ...call, approval: asked(event) })),
      )
    case 'approval':
      return approved(state, turn, event)
  }
}

// ---- details, in the order they are used above ----

const withTurn = (state: SessionFold, turn: TurnFold): SessionFold => ({ ...state, turn })

function started(state: SessionFold, event: SessionEventOf<'turn-start'>): SessionFold {
  const queued = state.queue.find(({ id }) => id === event.turnId)
  const turn: TurnFold = {
    id: event.turnId,
    prompt: event.prompt,
    model: event.model ?? null,
    provider: event.provider ?? null,
    traceparent: event.traceparent,
    startedAt: event.at,
    step: 0,
    stepsFrom: 0,
    repeated: NOT_REPEATED,
    isTooLong: false,
    isCompacted: false,
    answer: initialAnswer(),
    calls: [],
    parked: null,
    usage: NO_USAGE,
    cost: NO_COST,
    status: statusAfter(FIRST_STATUS, event),
    record: recordAfter(firstRecord(queued?.seq ?? event.seq), event),
    takeovers: 0,
  }
  return {
    ...state,
    turn,
    system: event.system ?? state.system,
    queue: state.queue.filter((queued) => queued.id !== event.turnId),
    entries: [...state.entries, { role: 'user', text: event.prompt, ...placeOf(event, 0) }],
  }
}

const stepStarted = (turn: TurnFold, step: number): TurnFold => ({
  ...turn,
  step,
  isTooLong: false,
  isCompacted: false,
  calls: [],
  takeovers: 0,
})

/** The first call of a step proves that its answer is complete: calls are journalled together, after the proof. */
function called(state: SessionFold, turn: TurnFold, event: SessionEventOf<'tool-call'>, isFirst: boolean): SessionFold {
  const { callId, tool, arguments: given, step, execId, definition, traceparent } = event
  const request: ToolCallRequest = { callId, tool, arguments: given }
  const call: ToolCall = {
    ...request,
    step,
    execId,
    output: '',
    execSeq: 0,
    execOffsets: {},
    result: null,
    ...NOT_SENT,
    notesFile: event.notesFile === true,
    definition,
    traceparent,
  }
  const entries = isFirst
    ? [
        ...state.entries,
        { role: 'assistant', text: shownText(turn.answer), calls: [request], ...placeOf(event, step) } as const,
      ]
    : state.entries.with(-1, withCall(state.entries.at(-1), request, placeOf(event, step)))
  const usage = isFirst ? addUsage(turn.usage, event.usage) : turn.usage
  const cost = isFirst ? addCost(turn.cost, event.usage, event.cost) : turn.cost
  const advancedBy = { calls: [...turn.calls, call], takeovers: 0, usage, cost }
  const window = withCount(state.window, event.usage, event.requestBytes)
  return { ...state, entries, window, turn: { ...turn, ...advancedBy } }
}

function withCall(entry: Entry | undefined, request: ToolCallRequest, place: EntryPlace): Entry {
  if (entry?.role !== 'assistant') return { role: 'assistant', text: '', calls: [request], ...place }
  return { ...entry, ...place, calls: [...entry.calls, request] }
}

function updatedCall(turn: TurnFold, callId: string, change: (call: ToolCall) => ToolCall): TurnFold {
  const at = turn.calls.findIndex((call) => call.callId === callId)
  const call = turn.calls[at]
  return call === undefined ? turn : { ...turn, calls: turn.calls.with(at, change(call)) }
}

function outputGrown(call: ToolCall, event: SessionEventOf<'tool-output'>): ToolCall {
  const { execSeq, execOffsets } = event
  return {
    ...call,
    output: call.output + event.text,
    execSeq: Math.max(call.execSeq, execSeq ?? 0),
    execOffsets: { ...call.execOffsets, ...execOffsets },
  }
}

function resulted(state: SessionFold, turn: TurnFold, event: SessionEventOf<'tool-result'>): SessionFold {
  // Output is kept only while the call runs: the result has what the model reads.
  const next = updatedCall(turn, event.callId, (call) => ({ ...call, output: '', result: event }))
  return {
    ...state,
    entries: [...state.entries, { role: 'tool', callId: event.callId, text: event.text, ...placeOf(event, turn.step) }],
    turn: { ...next, repeated: repeatedAfter(next), takeovers: 0 },
  }
}

/** The model reads it in the result that said `unknown`, in the next request. */
function answeredLate(state: SessionFold, { callId, turnId, text }: SessionEventOf<'tool-output'>): SessionFold {
  const at = state.entries.findLastIndex(
    (entry) => entry.role === 'tool' && entry.callId === callId && entry.turnId === turnId && entry.isNote !== true,
  )
  const entry = state.entries[at]
  if (entry?.role !== 'tool') return state
  return { ...state, entries: state.entries.with(at, { ...entry, text: `${entry.text}\n\n${LATE}\n${text}` }) }
}

const LATE = 'Later, it answered after all:'

const NOT_REPEATED = { call: '', times: 0 } as const

/** Once all calls of the step have a result. Several calls are no repetition: they may be a round of checks. */
function repeatedAfter({ calls, repeated }: TurnFold): TurnFold['repeated'] {
  const [only, ...more] = calls
  if (calls.some(({ result }) => result === null)) return repeated
  if (only?.result == null || more.length > 0) return NOT_REPEATED
  const { outcome, text, exit } = only.result
  const said = JSON.stringify([only.tool, only.arguments, outcome, text, exit?.code])
  const call = createHash('sha1').update(said).digest('base64')
  return { call, times: call === repeated.call ? repeated.times + 1 : 1 }
}

function sent(call: ToolCall, { taskId, refused }: NonNullable<SessionEventOf<'tool-output'>['sent']>): ToolCall {
  const times = call.sent.times + (refused === true ? -1 : taskId === undefined ? 1 : 0)
  // With the answer in it, the request must not be sent a second time.
  const approval =
    call.approval === null || refused === true ? call.approval : { ...call.approval, continues: undefined }
  return { ...call, approval, sent: { times, taskId: taskId ?? call.sent.taskId } }
}

const NOT_SENT = { sent: { times: 0, taskId: undefined }, approval: null, file: undefined } as const

const asked = ({ why, expiresAt, question, continues }: SessionEventOf<'approval-requested'>): Approval => ({
  why,
  expiresAt,
  decision: null,
  reason: null,
  question,
  continues,
})

function approved(state: SessionFold, turn: TurnFold, event: SessionEventOf<'approval'>): SessionFold {
  const { callId, decision, reason, value } = event
  const call = turn.calls.find((entry) => entry.callId === callId)
  const answered = updatedCall(turn, callId, (entry) => ({
    ...entry,
    approval: { why: '', expiresAt: null, ...entry.approval, decision, reason, value },
  }))
  const isNew = call !== undefined && decision === 'allow_session' && !state.allowedTools.includes(call.tool)
  const allowedTools = isNew ? [...state.allowedTools, call.tool] : state.allowedTools
  return { ...state, allowedTools, turn: answered }
}

function retried(state: SessionFold, turn: TurnFold, event: SessionEventOf<'retry'>): SessionFold {
  const next: TurnFold = {
    ...turn,
    usage: addUsage(turn.usage, event.usage),
    cost: addCost(turn.cost, event.usage, event.cost),
  }
  const { overflow, fault, told } = event
  const entries = told === undefined ? state.entries : [...state.entries, ...cutCall(event, told)]
  if (overflow === undefined) return { ...state, entries, turn: next }
  return { ...state, turn: { ...next, isTooLong: true }, window: withRefusal(state.window, overflow, fault) }
}

/** A call that was cut off, as the model reads it: without arguments, and with what to do instead as its result. */
function cutCall(event: SessionEventOf<'retry'>, told: NonNullable<SessionEventOf<'retry'>['told']>): readonly Entry[] {
  const place = placeOf(event, event.step)
  const callId = `cut${String(event.seq % 1_000_000).padStart(6, '0')}` // nine letters and digits: Mistral takes no other
  return [
    { role: 'assistant', text: '', calls: [{ callId, tool: told.tool, arguments: {} }], ...place },
    { role: 'tool', callId, text: told.text, ...place },
  ]
}

function shortened(state: SessionFold, turn: TurnFold, event: SessionEventOf<'compacted'>): SessionFold {
  const progress = { isTooLong: false, isCompacted: true, takeovers: 0 }
  return {
    ...state,
    entries: compacted(state.entries, event),
    turn: {
      ...turn,
      ...progress,
      usage: addUsage(turn.usage, event.usage),
      cost: addCost(turn.cost, event.usage, event.cost),
    },
  }
}

function parked(turn: TurnFold, event: SessionEventOf<'parked'>): TurnFold {
  const { fault, at: since, resumeAt, because, wait } = event
  return {
    ...turn,
    parked: { fault: faultFrom(fault).report, since, resumeAt, because, wait },
    usage: addUsage(turn.usage, event.usage),
    cost: addCost(turn.cost, event.usage, event.cost),
  }
}

/** A turn that had used up its steps gets as many again, and may repeat itself as often. */
function resumed(turn: TurnFold): TurnFold {
  const isGranted = turn.parked !== null && questionOf(turn.parked) === 'steps'
  return { ...turn, parked: null, ...(isGranted ? { stepsFrom: turn.step, repeated: NOT_REPEATED } : {}) }
}

/**
 * The answer that the model was writing when the last daemon died used tokens that were never counted. A turn that still waits
 * for its next attempt did nothing that could have killed the daemon, so it is not suspected of it.
 */
function takenOver(turn: TurnFold): TurnFold {
  const { isAnswering, parts } = turn.answer
  const isUncounted = isAnswering && parts.length > 0
  const usage = isUncounted ? addUsage(turn.usage, UNCOUNTED) : turn.usage
  const cost = isUncounted ? addCost(turn.cost, UNCOUNTED, undefined) : turn.cost
  const takeovers = turn.takeovers + (turn.status.retry === null ? 1 : 0)
  return { ...turn, usage, cost, takeovers }
}

function ended(state: SessionFold, event: SessionEventOf<'turn-end'> | SessionEventOf<'turn-error'>): SessionFold {
  const running = state.turn
  if (running === null || running.id !== event.turnId) {
    const queued = state.queue.find((entry) => entry.id === event.turnId)
    if (queued === undefined) return state
    return { ...state, queue: state.queue.filter((entry) => entry !== queued), ended: { turn: queued, end: event } }
  }
  const turn = { ...running, status: statusAfter(running.status, event), record: recordAfter(running.record, event) }
  const entries: Entry[] = [...state.entries]
  const place = placeOf(event, turn.step)
  if (event.type === 'turn-end') {
    if (event.text !== '') entries.push({ role: 'assistant', text: event.text, calls: [], ...place })
  } else {
    const text = shownText(turn.answer)
    if (turn.answer.isAnswering && text !== '') entries.push({ role: 'assistant', text, calls: [], ...place })
    for (const call of turn.calls) {
      if (call.result === null) entries.push({ role: 'tool', callId: call.callId, text: NOT_DONE, ...place }) // I2
    }
  }
  return { ...state, entries, turn: null, ended: { turn, end: event } }
}

const placeOf = ({ seq, turnId }: AnyEvent, step: number): EntryPlace => ({ seq, turnId, step })

const NOT_DONE = 'The turn ended before this call had a result.'
