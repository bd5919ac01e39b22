/** `--require exact=100`: which share of the runs must have which verdict, in per cent. Pure. */
import { Fault } from '@breakfall/faults'

export type Requirement = { readonly verdict: 'exact'; readonly percent: number }

export function readRequirement(text: string): Requirement {
  const [, percent] = /^exact=(\d{1,3})%?$/.exec(text.trim()) ?? []
  if (percent === undefined || Number(percent) > 100) {
    const errors = [{ field: '--require', expected: 'exact=N with N from 0 to 100', got: JSON.stringify(text) }]
    throw new Fault('invalid_request', { error: `--require must be exact=N with N from 0 to 100, got ${text}`, errors })
  }
  return { verdict: 'exact', percent: Number(percent) }
}

export const isMet = ({ percent }: Requirement, score: { readonly exact: number; readonly of: number }): boolean =>
  score.of > 0 && score.exact * 100 >= percent * score.of
