/**
 * Folds a session's events into what the page shows. One function feeds everything; no component reads events.
 *
 * I1  The result depends only on the events and their order: live, replayed or replayed in pieces, it is the same.
 * I2  Every attempt stays, with its fault, its wait and what was thrown away.
 * I3  An event that this version does not know, or cannot read, is a note. Everything else still folds.
 */
import type { SessionEvent, SessionEventOf } from '@breakfall/wire'
import { FIRST_STATUS, statusAfter } from '@breakfall/wire/turn'
import { bytes } from '../text/format.ts'
import { jsonOf, textOf, textOrNull } from './shapes.ts'
import {
  approved,
  asked,
  called,
  callIn,
  ended,
  parked,
  resulted,
  resumed,
  retried,
  endWait,
  scar,
  takenOver,
  touch,
} from './changes.ts'
import { isEvent, isNumbered, type Numbered } from './events.ts'
import { attemptOf, closeOpen, latestStep, note, openSpan, part, stepOf } from './rows.ts'
import type { SessionFold, TurnView } from './view.ts'

export function fold(view: SessionFold, raw: unknown): void {
  if (!isNumbered(raw) || raw.seq <= view.lastSeq) return // seen before, or no event at all
  view.lastSeq = raw.seq
  view.events += 1
  view.rev += 1
  const turn = turnOf(view, raw)
  if (isEvent(raw)) {
    turn.status = statusAfter(turn.status, raw)
    apply(turn, raw)
  } else note(latestStep(turn, Date.parse(raw.at), raw.seq), raw, `event ${raw.type}`) // I3
  turn.lastSeq = raw.seq
  turn.lastAt = Date.parse(raw.at)
  turn.rev += 1
}

// ---- details, in the order they are used above ----

function turnOf(view: SessionFold, { turnId, seq, at }: Numbered): TurnView {
  const known = view.byId.get(turnId)
  if (known !== undefined) return known
  const turn: TurnView = {
    id: turnId,
    prompt: '',
    status: FIRST_STATUS,
    queuedAt: null,
    startedAt: null,
    endedAt: null,
    lastSeq: seq,
    lastAt: Date.parse(at),
    model: null,
    steps: [],
    scars: [],
    wait: null,
    park: null,
    fault: null,
    end: null,
    failures: 0,
    waitedMs: 0,
    tokens: { input: 0, output: 0, unknown: 0 },
    server: null,
    missingTools: [],
    rev: 0,
  }
  view.turns.push(turn)
  view.byId.set(turnId, turn)
  return turn
}

function apply(turn: TurnView, event: SessionEvent): void {
  const at = Date.parse(event.at)
  if (turn.status.retry === null) endWait(turn, event.type === 'taken-over' ? turn.lastAt : at)
  if (turn.status.state === 'running' && event.type !== 'model-server') turn.server = null
  switch (event.type) {
    case 'turn-queued':
      turn.prompt = event.prompt
      turn.queuedAt = at
      return
    case 'turn-start':
      turn.prompt = event.prompt
      turn.startedAt = at
      turn.model = event.model ?? null
      turn.missingTools = missingTools(event)
      return
    case 'step-start': {
      closeOpen(turn, at)
      const step = stepOf(turn, event.step, at, event.seq)
      attemptOf(step, 1, at).model = textOrNull(jsonOf(event)['model']) ?? turn.model
      return
    }
    case 'text-delta':
    case 'reasoning-delta': {
      const target = part(turn, event, event.type === 'text-delta' ? 'text' : 'reasoning', at, event.seq)
      target.text += event.text
      return
    }
    case 'tool-draft': {
      const target = part(turn, event, 'call', at, event.seq)
      target.tool = event.tool
      target.argumentsBytes = event.argumentsBytes
      return
    }
    case 'part-discarded':
      discarded(turn, event)
      return
    case 'tool-call':
      return called(turn, event, at)
    case 'tool-output': {
      const call = callIn(turn, event.callId)
      if (call === undefined) return
      openSpan(call.spans, at)
      call.output += event.text
      call.outputBytes += event.text.length
      touch(turn, call.step)
      return
    }
    case 'tool-result':
      return resulted(turn, event, at)
    case 'retry':
      return retried(turn, event, at)
    case 'compacted': {
      const step = stepOf(turn, event.step, at, event.seq)
      const text = `The conversation was shortened from ${bytes(event.requestBytesBefore)} to ${bytes(event.requestBytesAfter)}.`
      return note(step, event, text)
    }
    case 'parked':
      return parked(turn, event, at)
    case 'resumed':
      return resumed(turn, event, at)
    case 'taken-over':
      return takenOver(turn, event, at)
    case 'box-moved': {
      const step = stepOf(turn, turn.steps.at(-1)?.n ?? 1, at, event.seq)
      const files = event.filesKept ? 'Its files are still there.' : 'Every file in it is lost.'
      const text = `Runner ${event.from} was lost; the session has a new box at ${event.to}. ${files}`
      return note(step, event, text)
    }
    case 'model-server': {
      const { state, since, line = '' } = event
      turn.server = state === 'ready' || state === 'busy' ? null : { state, since, line }
      return
    }
    case 'approval-requested':
      return asked(turn, event)
    case 'approval':
      return approved(turn, event)
    case 'turn-end': {
      closeOpen(turn, at)
      const { text, usage, cost = null, finish = null, unproven = false, faultsSurvived } = event
      turn.end = { text, usage, cost, finish, unproven, faultsSurvived }
      return ended(turn, at)
    }
    case 'turn-error': {
      closeOpen(turn, at)
      turn.fault = event
      const step = turn.steps.at(-1)?.n ?? 0
      if (turn.status.state === 'failed') scar(turn, event.seq, 'end', step, event.category)
      return ended(turn, at)
    }
  }
}

/** Throwing text away is our doing: it does not count as a sign of life from the model. */
function discarded(turn: TurnView, event: SessionEventOf<'part-discarded'>): void {
  const step = turn.steps.findLast(({ n }) => n === event.step)
  const attempt = step?.attempts.findLast(({ n }) => n === event.attempt)
  const target = attempt?.parts.find(({ key }) => key === event.part)
  if (step === undefined || target === undefined) return
  target.discarded = event.because
  step.rev += 1
}

function missingTools(event: SessionEventOf<'turn-start'>): readonly string[] {
  const list = jsonOf(event)['missingTools']
  return Array.isArray(list) ? list.map((entry: unknown) => textOf(jsonOf(entry)['server'])).filter(Boolean) : []
}
