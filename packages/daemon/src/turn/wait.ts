/**
 * When a parked turn is due: at a time if one is known, for a cheap probe now and then, or when a person has acted. Pure.
 *
 * I1  `dueOf` alone says when a parked turn is due, whether a process keeps it in memory or a shared store does.
 * I2  A turn waits no longer than its policy allows. A turn that waits for a person has not failed and costs nothing: only its deadline
 *     ends it, or the expiry of the approval that it waits for.
 * I3  A wait that this process has seen does not end because someone turned the clock forward. Its times in the journal are those of
 *     the clock on the wall, so after a restart they count as they are.
 */
import { type FaultReport, LIMITS, type Policy } from '@breakfall/faults'
import { probeDelayMs } from '@breakfall/faults/internal'
import { type WaitsFor, waitsFor } from '@breakfall/wire/turn'
import { deadlineAt } from './next.ts'
import type { Parked, TurnFold } from './state.ts'

const AGAIN_MS = 60_000
const BROKEN_ANSWER_MS = 5_000
const AGAIN_MS_MAX = 3_600_000
const QUOTA_MS = 3_600_000 // quotas reset by the hour or by the day, and providers rarely say when

/**
 * When to resume, if that is a matter of time. A turn without progress parks at most twenty times, so parks grow: a minute, two,
 * … an hour. They start at five seconds if answers broke off: the server is there, and the next one may get through.
 */
export function resumeTime(
  fault: FaultReport,
  requestedAt: number | null,
  parks: number,
  dice: number,
  now: number,
): number | null {
  if (requestedAt !== null) return requestedAt
  const isQuota = fault.category === 'model_quota_exhausted' // resets on its own, or is raised, or another key is set
  if (!isQuota && waitsFor(fault) !== 'time') return null
  const base = isQuota ? QUOTA_MS : Math.min(AGAIN_MS_MAX, firstWaitMs(fault) * 2 ** Math.min(20, parks))
  return now + Math.round(base * (1 + 0.2 * dice)) // jitter keeps many turns from resuming together
}

function firstWaitMs(fault: FaultReport): number {
  if (fault.category === 'journal_full') return LIMITS.probeMsFirst // space may be freed any moment
  return isBrokenAnswer(fault) ? BROKEN_ANSWER_MS : AGAIN_MS
}

/** A request that was accepted and an answer that then failed. */
const isBrokenAnswer = ({ boundary, phase }: FaultReport): boolean => boundary === 'model' && phase === 'stream'

/** What a parked turn waits for, and what resumes it. */
export function waitText(fault: FaultReport, resumeAt: string | null): string {
  const time = resumeAt === null ? '' : `${resumeAt.slice(0, 19).replace('T', ' ')} UTC`
  switch (waitsFor(fault)) {
    case 'runner':
      if (fault.category === 'runner_not_available')
        return 'The turn waits until a runner that fits joins, or has room; a running daemon then resumes it.'
      return 'The turn waits until its runner answers; a running daemon then resumes it.'
    case 'model':
      if (fault.serve?.state === 'given_up')
        return 'The turn waits; a change of the command, the configuration or the model file, "resume" or a later attempt starts the server again.'
      return 'The turn waits until the model server accepts connections; a running daemon then resumes it.'
    case 'time':
      return `The turn waits until ${time}; a running daemon then resumes it, and "resume" does so sooner.`
    case 'config': {
      const change = 'a change of the key, the token or the configuration resumes it'
      return resumeAt === null
        ? `The turn waits; ${change}.`
        : `The turn waits until ${time} at most; ${change} sooner.`
    }
    case 'restart':
      return 'The turn waits for the next start of the daemon, which resumes it.'
    case 'person':
      if (fault.category === 'approval_needed') return 'The turn waits for your answer; the call has not run.'
      return 'The turn waits; "resume" gives it as many steps again, and another prompt continues the conversation.'
    case 'journal':
      return `The turn waits until ${FREE_MIB} MiB are free on the journal's disk, or a quarter of a smaller disk; a running daemon then resumes it.`
  }
}

/** How much of the journal's disk has to be free before a turn that waits for space resumes. */
export const FREE_MIB = 8

/** Between probes: 5 s, 10 s, … 60 s, with jitter; tests scale them down. A look at a disk costs nothing, so it stays at 5 s. */
export function probeIntervalMs(source: WaitsFor, probe: number, dice: number, firstMs: number): number {
  return Math.round((probeDelayMs(source === 'journal' ? 0 : probe, dice) * firstMs) / LIMITS.probeMsFirst)
}

/** When a turn that no daemon owns is claimed for a look at what it waits for. Null if there is nothing to look at. */
export function unownedProbeAt({ fault, since, resumeAt }: Parked, now: number): number | null {
  const source = waitsFor(fault)
  if (source === 'person' || source === 'restart' || resumeAt !== null) return null
  const isNew = now - Date.parse(since) < NEW_MS
  return now + (isNew && source === 'runner' ? FIRST_PROBE_MS : UNOWNED_PROBE_MS[source])
}

/** Between two looks at what an unowned turn waits for, if nothing announces it. */
const UNOWNED_PROBE_MS = { runner: 30_000, model: 15_000, journal: 5_000, config: 60_000, time: 60_000 } as const

/** A runner may have registered between the failed call and the park, when there was no parked turn to wake yet. */
const FIRST_PROBE_MS = 1_000
const NEW_MS = 900 // less than FIRST_PROBE_MS: only one such look

export type Due = {
  /** When something is to be done about it next. Infinity: never, unless something wakes it. */
  readonly at: number
  /** What is to be done now, if anything: its deadline has passed, it resumes, it has waited for too long, or it probes. */
  readonly now: 'deadline' | 'resume' | 'expiry' | 'probe' | null
}

/** I1 */
export function dueOf(
  turn: Pick<TurnFold, 'answer' | 'calls' | 'startedAt'>,
  parked: Parked,
  policy: Pick<Policy, 'deadlineMs' | 'parkMsMax'>,
  { now, probeAt, aheadMs = 0 }: { readonly now: number; readonly probeAt: number | null; readonly aheadMs?: number },
): Due {
  const expiry = expiresAt(turn, parked, policy)
  const times = [
    ['deadline', deadlineAt(turn, policy)],
    ['resume', resumesAt(parked)],
    ['expiry', expiry === null ? null : expiry + aheadMs], // I3
    ['probe', probeAt],
  ] as const
  const ahead = times.map(([, at]) => at ?? Number.POSITIVE_INFINITY)
  const passed = times.find(([, at]) => at !== null && at <= now)
  return { at: Math.min(...ahead), now: passed?.[0] ?? null }
}

/** A turn that was handed over resumes with the next daemon, whenever that starts. */
const resumesAt = ({ fault, since, resumeAt }: Parked): number | null =>
  waitsFor(fault) === 'restart' ? Date.parse(since) : resumeAt === null ? null : Date.parse(resumeAt)

/** I2 */
function expiresAt(
  { calls, answer }: Pick<TurnFold, 'answer' | 'calls'>,
  { fault, since }: Parked,
  { parkMsMax }: Pick<Policy, 'parkMsMax'>,
): number | null {
  if (waitsFor(fault) !== 'person') return Date.parse(since) + parkMsMax - answer.budget.parkedMs
  const at = calls.find(({ approval }) => approval?.decision === null)?.approval?.expiresAt
  return fault.category !== 'approval_needed' || at == null ? null : Date.parse(at)
}
