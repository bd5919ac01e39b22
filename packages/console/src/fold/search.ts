/** Finds text in a turn: answers, thrown-away text, commands, output, categories. By the fold, so folded steps are found too. */
import type { Step, TurnView } from './view.ts'

/** The steps that contain it, in order. */
export function stepsWith(turn: TurnView, query: string): readonly number[] {
  const wanted = query.trim().toLowerCase()
  if (wanted === '') return []
  return turn.steps
    .filter((step) => textsOf(step).some((text) => text.toLowerCase().includes(wanted)))
    .map(({ n }) => n)
}

/** Everything in a step that a person may look for. */
export function textsOf(step: Step): readonly string[] {
  return [
    ...step.attempts.flatMap(({ parts, fault }) => [
      ...parts.map(({ text }) => text),
      ...(fault === null ? [] : [fault.category, fault.errorRaw]),
    ]),
    ...step.calls.flatMap((call) => [call.tool, JSON.stringify(call.arguments), call.output, call.result]),
    ...step.parks.map(({ fault }) => fault.category),
  ]
}
