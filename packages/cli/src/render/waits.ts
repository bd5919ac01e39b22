/** What a parked turn waits for, and how it is taken up, in words. Pure. */
import { type FaultCategory, FAULTS, isFaultCategory } from '@breakfall/faults'

type Parked = { readonly category: string; readonly since: string; readonly resumeAt: string | null }

/** `for the network (network_down)`; with a time where there is one. */
export function waitsFor({ category, resumeAt }: Pick<Parked, 'category' | 'resumeAt'>): string {
  const until = resumeAt === null ? '' : `, until ${clock(resumeAt)}`
  return `for ${isFaultCategory(category) ? thing(category) : 'what failed'} (${category})${until}`
}

/** A line that says what it waits for, and one that says how it goes on: under a daemon by itself, else when it is taken up. */
export function parkedLines(parked: Parked, sessionId: string, isLive: boolean): readonly string[] {
  return [`waits ${waitsFor(parked)} since ${clock(parked.since)}`, goesOn(sessionId, isLive, parked.category)]
}

/** Where a daemon stays it goes on by itself; else only when somebody takes it up. A process keeps the keys that it began with. */
export function goesOn(sessionId: string, isLive: boolean, category: string): string {
  if (!isLive) return takeUp(sessionId)
  const when = category === 'model_auth_failed' ? ` ${WITH_KEY}` : ''
  return `goes on by itself${when}; to try now: breakfall resume ${sessionId}`
}

const WITH_KEY =
  'when its daemon has another key: start that again with one, or name the variable that has it as [model] apiKeyEnv in config.toml'

export const takeUp = (sessionId: string): string =>
  `take it up again: breakfall run --continue (in its folder), or breakfall run --session ${sessionId}; breakfall up goes on with all that were left`

/** `2026-11-15 22:40:36 UTC`, as a parked turn's own sentence says it. */
export const clock = (at: string): string => `${at.slice(0, 19).replace('T', ' ')} UTC`

// ---- details ----

const NAMED: Readonly<Partial<Record<FaultCategory, string>>> = {
  network_down: 'the network',
  model_auth_failed: 'a valid key of the model provider',
  model_quota_exhausted: 'credit, or the reset of the quota',
  model_rate_limited: 'its turn at the model provider',
  runner_auth_failed: "the runner's token",
  journal_full: 'space on the disk, 8 MiB at least',
  shutting_down: 'the next daemon',
  lease_lost: 'the next daemon',
}

function thing(category: FaultCategory): string {
  const named = NAMED[category]
  if (named !== undefined) return named
  const { boundary } = FAULTS[category]
  if (boundary === 'runner' || boundary === 'box') return 'the runner'
  return boundary === 'model' || boundary === 'process' ? 'the model server' : 'the next daemon'
}
