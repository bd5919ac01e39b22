/**
 * When a parked turn is due: at a time if one is known, for a cheap probe now and then, or when a person has acted. Pure.
 * What it waits for is a `Wait` (`waitOf` of `@breakfall/wire/turn`).
 *
 * I1  `dueAt` alone says when a parked turn is due, whether a process keeps it in memory or a shared store does.
 * I2  A turn waits no longer than its policy allows. A turn that waits for a person has not failed and costs nothing: only its deadline
 *     ends it, or the expiry of the approval that it waits for.
 * I3  A wait that this process has seen does not end because someone turned the clock forward. Its times in the journal are those of
 *     the clock on the wall, so after a restart they count as they are.
 */
import { type FaultReport, LIMITS, type Policy } from '@breakfall/faults'
import { probeDelayMs } from '@breakfall/faults/internal'
import { resetsByItself, type Wait, waitOf, type WaitsFor, waitsFor } from '@breakfall/wire/turn'
import type { Approval, Parked, TurnFold } from './state.ts'

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
  const isQuota = resetsByItself(fault)
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
export function waitText({ for: source, question, until }: Wait, fault: FaultReport): string {
  const time = until === null ? '' : `${until.slice(0, 19).replace('T', ' ')} UTC`
  switch (source) {
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
      return until === null ? `The turn waits; ${change}.` : `The turn waits until ${time} at most; ${change} sooner.`
    }
    case 'restart':
      return 'The turn waits for the next start of the daemon, which resumes it.'
    case 'person':
      if (question === 'approval' && fault.reason === SERVER_ASKS)
        return 'The turn waits for your answer, and its call with it.'
      if (question === 'approval') return 'The turn waits for your answer; the call has not run.'
      return 'The turn waits; "resume" gives it as many steps again, and another prompt continues the conversation.'
    case 'journal':
      return `The turn waits until ${FREE_MIB} MiB are free on the journal's disk, or a quarter of a smaller disk; a running daemon then resumes it.`
  }
}

/** The reason of a park with a question of an MCP server, which has the call already. */
export const SERVER_ASKS = 'server_asks'

/** How much of the journal's disk has to be free before a turn that waits for space resumes. */
export const FREE_MIB = 8

/** Between probes: 5 s, 10 s, … 60 s, with jitter; tests scale them down. A look at a disk costs nothing, so it stays at 5 s. */
export function probeIntervalMs(source: WaitsFor, probe: number, dice: number, firstMs: number): number {
  return Math.round((probeDelayMs(source === 'journal' ? 0 : probe, dice) * firstMs) / LIMITS.probeMsFirst)
}

/** When a turn that no daemon owns is claimed for a look at what it waits for. Null if there is nothing to look at. */
export function unownedProbeAt({ for: source, until }: Wait, since: string, now: number): number | null {
  if (source === 'person' || source === 'restart' || until !== null) return null
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

/** I1. A turn that was handed over resumes with the next daemon, whenever that starts. */
export function dueAt(
  { for: source, until, expiresAt }: Wait,
  now: number,
  {
    deadline,
    probeAt,
    aheadMs = 0,
  }: { readonly deadline: number | null; readonly probeAt: number | null; readonly aheadMs?: number },
): Due {
  const times = [
    ['deadline', deadline],
    ['resume', source === 'restart' ? now : timeOf(until)],
    ['expiry', expiresAt === null ? null : Date.parse(expiresAt) + aheadMs], // I3
    ['probe', probeAt],
  ] as const
  const ahead = times.map(([, at]) => at ?? Number.POSITIVE_INFINITY)
  const passed = times.find(([, at]) => at !== null && at <= now)
  return { at: Math.min(...ahead), now: passed?.[0] ?? null }
}

/** What a turn waits for, and until when. Journals of earlier versions do not say it: there it follows from the policy of now. */
export function waitOfTurn(turn: TurnFold, parked: Parked, policy: Pick<Policy, 'parkMsMax'>): Wait {
  const wait = waitOf(parked)
  const asked = turn.calls.find(({ approval }) => approval?.decision === null)?.approval
  return parked.wait ?? { ...wait, expiresAt: expiryOf(wait, parked.since, turn, policy, asked) }
}

/** I2. `asked`: the approval that it waits for. */
export function expiryOf(
  { for: source, question }: Wait,
  since: string,
  { answer }: Pick<TurnFold, 'answer'>,
  { parkMsMax }: Pick<Policy, 'parkMsMax'>,
  asked: Pick<Approval, 'expiresAt'> | null | undefined,
): string | null {
  if (question === 'approval') return asked?.expiresAt ?? null
  if (source === 'person' || source === 'restart') return null
  return new Date(Date.parse(since) + parkMsMax - answer.budget.parkedMs).toISOString()
}

// ---- details ----

const timeOf = (at: string | null): number | null => (at === null ? null : Date.parse(at))
