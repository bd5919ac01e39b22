/** Rows of the view: found, or made. */
import type { Attempt, Part, Span, Step, TurnView } from './view.ts'

export function stepOf(turn: TurnView, n: number, at: number, seq: number): Step {
  const known = turn.steps.findLast((step) => step.n === n)
  if (known !== undefined) return known
  const step: Step = {
    n,
    startedAt: at,
    seq,
    attempts: [],
    calls: [],
    parks: [],
    takeovers: [],
    notes: [],
    rev: 0,
  }
  turn.steps.push(step)
  return step
}

/** The current step; for what happens before the first one, a step 0 that is only there if it is needed. */
export const latestStep = (turn: TurnView, at: number, seq: number): Step =>
  turn.steps.at(-1) ?? stepOf(turn, 0, at, seq)

export function attemptOf(step: Step, n: number, from: number): Attempt {
  const known = step.attempts.findLast((attempt) => attempt.n === n)
  if (known !== undefined) return known
  const attempt: Attempt = {
    step: step.n,
    n,
    spans: [{ from, to: null }],
    parts: [],
    heardAt: null,
    state: 'running',
    fault: null,
    wait: null,
    continues: false,
    model: null,
  }
  step.attempts.push(attempt)
  step.rev += 1
  return attempt
}

/** A line between the steps. `json` is what it unfolds to. */
export function note(
  step: Step,
  event: { readonly seq: number; readonly at: string },
  text: string,
  json: unknown = event,
): void {
  step.notes.push({ seq: event.seq, step: step.n, at: Date.parse(event.at), text, json })
  step.rev += 1
}

type PartPlace = { readonly step: number; readonly attempt: number; readonly part: string }

/** The part that a delta belongs to. Its attempt runs from now on. */
export function part(turn: TurnView, place: PartPlace, kind: Part['kind'], at: number, seq: number): Part {
  const step = stepOf(turn, place.step, at, seq)
  step.rev += 1
  const attempt = attemptOf(step, place.attempt, at)
  attempt.heardAt = at
  if (attempt.state === 'waiting' || attempt.state === 'cut') {
    const from = attempt.state === 'cut' ? (step.takeovers.at(-1)?.to ?? at) : at // it was asked again when the daemon came back
    attempt.state = 'running'
    openSpan(attempt.spans, from)
  }
  const known = attempt.parts.find(({ key }) => key === place.part)
  if (known !== undefined) return known
  const made: Part = { key: place.part, kind, text: '', tool: '', argumentsBytes: 0, discarded: null }
  attempt.parts.push(made)
  return made
}

/** A new span, if the last one is over. */
export function openSpan(spans: Span[], from: number): void {
  if (spans.at(-1)?.to !== null) spans.push({ from, to: null })
}

/** Ends what is still open in the current step, because a park, the next step or the end of the turn came. */
export function closeOpen(turn: TurnView, at: number): void {
  const step = turn.steps.at(-1)
  if (step === undefined) return
  for (const { spans } of [...step.attempts, ...step.calls]) {
    const last = spans.at(-1)
    if (last?.to === null) last.to = Math.max(at, last.from)
  }
  step.rev += 1
}
