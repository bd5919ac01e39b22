/** Which steps share a lane: runs of steps without a fault fold into one line, the last three and every scar stay. */
import type { Step, TurnView } from '../fold/view.ts'

export type Group = { readonly key: string; readonly steps: readonly Step[]; readonly isFolded: boolean }

export const KEPT_LAST = 3
const FOLDED_FROM = 2 // one quiet step folded into one line would save nothing

export const isQuiet = (step: Step): boolean =>
  step.attempts.length <= 1 &&
  step.parks.length === 0 &&
  step.takeovers.length === 0 &&
  step.notes.length === 0 &&
  step.attempts.every(({ fault }) => fault === null) &&
  step.calls.every(
    ({ outcome, lookups, approval }) => outcome !== 'unknown' && lookups.length === 0 && approval === null,
  )

/** `unfolded`: steps that a person opened, or that a link or a search points to. `upTo`: later steps never fold. */
export function groupsOf(
  turn: TurnView,
  unfolded: ReadonlySet<number> | 'all',
  upTo = turn.steps.length - KEPT_LAST,
): readonly Group[] {
  const groups: Group[] = []
  let quiet: Step[] = []
  const flush = (): void => {
    if (quiet.length >= FOLDED_FROM) groups.push({ key: `fold-${quiet[0]?.n ?? 0}`, steps: quiet, isFolded: true })
    else for (const step of quiet) groups.push(single(step))
    quiet = []
  }
  turn.steps.forEach((step, index) => {
    const folds = unfolded !== 'all' && index < upTo && !unfolded.has(step.n) && isQuiet(step)
    if (folds) return void quiet.push(step)
    flush()
    groups.push(single(step))
  })
  flush()
  return groups
}

const single = (step: Step): Group => ({ key: `step-${step.n}`, steps: [step], isFolded: false })
