/** What single events do to a turn: calls, retries, parks, restarts, ends. */
import type { SessionEventOf, Usage } from '@breakfall/wire'
import { countsAsFault } from '@breakfall/wire/turn'
import { jsonOf, textOrNull } from './shapes.ts'
import { attemptOf, closeOpen, latestStep, note, stepOf } from './rows.ts'
import type { Attempt, Call, TurnView, Wait } from './view.ts'

/** By the journal's times, not by the page's clock: that one may lag behind. */
export function endWait(turn: TurnView, at: number): void {
  if (turn.wait === null) return
  turn.wait.endedAt = Math.min(at, turn.wait.until)
  turn.wait = null
}

type ScarFields = { readonly attempt?: number; readonly callId?: string | null }

export function scar(
  turn: TurnView,
  seq: number,
  kind: TurnView['scars'][number]['kind'],
  step: number,
  category: string,
  { attempt, callId = null }: ScarFields = {},
): void {
  turn.scars.push({ seq, kind, step, attempt: attempt ?? null, callId, category })
}

export function touch(turn: TurnView, step: number): void {
  const found = turn.steps.findLast(({ n }) => n === step)
  if (found !== undefined) found.rev += 1
}

export function callIn(turn: TurnView, callId: string): Call | undefined {
  for (let i = turn.steps.length - 1; i >= 0; i -= 1) {
    const call = turn.steps[i]?.calls.find(({ id }) => id === callId)
    if (call !== undefined) return call
  }
  return undefined
}

export function called(turn: TurnView, event: SessionEventOf<'tool-call'>, at: number): void {
  const step = stepOf(turn, event.step, at, event.seq)
  const attempt = step.attempts.findLast(({ state }) => state === 'running' || state === 'waiting')
  if (attempt !== undefined) {
    attempt.state = 'done'
    closeSpan(attempt.spans, at)
    attempt.parts.splice(0, attempt.parts.length, ...attempt.parts.filter(({ kind }) => kind !== 'call'))
  }
  step.calls.push({
    id: event.callId,
    step: step.n,
    tool: event.tool,
    arguments: event.arguments,
    execId: event.execId,
    spans: [{ from: at, to: null }],
    lookups: [],
    output: '',
    outputBytes: 0,
    outcome: 'running',
    result: '',
    exit: null,
    approval: null,
  })
  spend(turn, event.usage)
  step.rev += 1
}

function closeSpan(spans: Call['spans'], at: number): void {
  const last = spans.at(-1)
  if (last?.to === null) last.to = at
}

/** Unknown is never 0: it is counted, and shown as "at least". */
function spend(turn: TurnView, usage: Usage | undefined): void {
  if (usage === undefined) return
  const { inputTokens, outputTokens } = usage
  if (inputTokens.value === null || outputTokens.value === null) turn.tokens.unknown += 1
  turn.tokens.input += inputTokens.value ?? 0
  turn.tokens.output += outputTokens.value ?? 0
}

export function resulted(turn: TurnView, event: SessionEventOf<'tool-result'>, at: number): void {
  const call = callIn(turn, event.callId)
  if (call === undefined) return
  call.outcome = event.outcome
  call.result = event.text
  call.exit = event.exit ?? null
  closeSpan(call.spans, at)
  if (event.outcome === 'unknown') {
    scar(turn, event.seq, 'unknown', call.step, 'exec_outcome_unknown', { callId: call.id })
  }
  touch(turn, call.step)
}

export function retried(turn: TurnView, event: SessionEventOf<'retry'>, at: number): void {
  const { fault, action, delayMs, attempt: n, max } = event
  const extra = jsonOf(event)
  const to = jsonOf(extra['to'])
  const wait: Wait = {
    seq: event.seq,
    at,
    until: Date.parse(event.nextAt),
    endedAt: null,
    action,
    delayMs,
    attempt: n,
    max,
    fault,
    to: textOrNull(to['model']),
    isFree: event.free === true,
  }
  turn.failures += 1
  turn.waitedMs += delayMs
  turn.wait = wait
  spend(turn, event.usage)
  const step = stepOf(turn, event.step, at, event.seq)
  step.rev += 1
  const callId = textOrNull(extra['callId']) ?? fault.callId ?? null
  const call = action === 'resolve' || fault.boundary === 'runner' ? lookedUp(step.calls, callId) : undefined
  if (call !== undefined) {
    call.lookups.push(wait)
    return scar(turn, event.seq, 'lookup', step.n, fault.category, { callId: call.id })
  }
  const failed = attemptOf(step, n, at)
  failed.fault = fault
  failed.state = 'failed'
  failed.wait = wait
  closeSpan(failed.spans, at)
  const next = attemptOf(step, n + 1, wait.until)
  next.state = 'waiting'
  next.continues = action === 'resume'
  next.model = wait.to ?? failed.model
  scar(turn, event.seq, 'attempt', step.n, fault.category, { attempt: n })
}

const lookedUp = (calls: readonly Call[], id: string | null): Call | undefined =>
  calls.find((call) => call.id === id) ?? calls.find(({ outcome }) => outcome === 'running')

export function parked(turn: TurnView, event: SessionEventOf<'parked'>, at: number): void {
  closeOpen(turn, at)
  const step = latestStep(turn, at, event.seq)
  const park = {
    seq: event.seq,
    step: step.n,
    at,
    resumeAt: event.resumeAt ?? null,
    fault: event.fault,
    because: event.because ?? null,
    endedAt: null,
    endedBy: null,
  }
  step.parks.push(park)
  step.rev += 1
  turn.park = park
  const counts = countsAsFault(event)
  const failed = step.attempts.findLast((one) => one.state === 'running' || one.state === 'cut' || hasBegun(one, at))
  if (failed !== undefined && counts) {
    failed.state = 'failed'
    failed.fault = event.fault
  }
  if (counts) scar(turn, event.seq, 'park', step.n, event.fault.category)
}

/** Its wait is over, so it was asked, though nothing of an answer was heard. */
const hasBegun = ({ state, spans }: Attempt, at: number): boolean =>
  state === 'waiting' && (spans[0]?.from ?? at + 1) <= at

export function resumed(turn: TurnView, event: SessionEventOf<'resumed'>, at: number): void {
  if (turn.park !== null) {
    turn.park.endedAt = at
    turn.park.endedBy = event.because
    touch(turn, turn.park.step)
    turn.park = null
  }
  if (turn.status.retry !== null) return // the new daemon waits for the rest of it
  const step = turn.steps.at(-1)
  const next = step?.attempts.at(-1)
  if (step !== undefined && next?.state === 'waiting') {
    const isEarly = at < (next.spans[0]?.from ?? 0)
    next.spans.splice(0, next.spans.length, { from: at, to: null })
    next.state = 'running'
    if (isEarly) {
      const text =
        event.because === 'person' ? 'The wait was ended by a person.' : `The wait was ended early (${event.because}).`
      note(step, event, text, null)
    }
    step.rev += 1
  }
}

export function takenOver(turn: TurnView, event: SessionEventOf<'taken-over'>, at: number): void {
  const step = latestStep(turn, at, event.seq)
  const from = turn.lastAt
  for (const attempt of step.attempts) {
    if (attempt.state !== 'running') continue
    closeSpan(attempt.spans, from)
    attempt.state = 'cut'
  }
  for (const call of step.calls) closeSpan(call.spans, from)
  step.takeovers.push({ seq: event.seq, step: step.n, from, to: at, epoch: event.epoch, daemon: event.daemon ?? null })
  step.rev += 1
  const next = step.attempts.at(-1)
  if (next?.state === 'waiting' && (next.spans[0]?.from ?? 0) < at) {
    next.spans.splice(0, next.spans.length, { from: at, to: null })
  }
  scar(turn, event.seq, 'takeover', step.n, 'daemon_killed', {})
}

export function ended(turn: TurnView, at: number): void {
  if (turn.park !== null) {
    turn.park.endedAt = at
    turn.park = null
  }
  turn.server = null
  turn.endedAt = at
  const step = turn.steps.at(-1)
  if (step === undefined) return
  step.rev += 1
  for (const attempt of step.attempts.splice(0)) {
    if (attempt.state === 'running' || hasBegun(attempt, at))
      attempt.state = turn.status.state === 'finished' ? 'done' : 'cut'
    if (attempt.state !== 'waiting') step.attempts.push(attempt)
  }
}

export function asked(turn: TurnView, event: SessionEventOf<'approval-requested'>): void {
  const { callId, why, expiresAt, question } = event
  const call = callIn(turn, callId)
  if (call === undefined) return
  call.approval = { why, expiresAt, decision: null, reason: '', question }
  touch(turn, call.step)
}

export function approved(turn: TurnView, { callId, decision, reason }: SessionEventOf<'approval'>): void {
  const call = callIn(turn, callId)
  if (call === undefined) return
  call.approval = { why: '', expiresAt: null, ...call.approval, decision, reason: reason ?? '' }
  touch(turn, call.step)
}
