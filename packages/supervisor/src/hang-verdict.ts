/**
 * Is a child that does not answer hung, or only slow? A pure fold over observations: one health probe and one look at its vital
 * signs each.
 *
 * I1  Work proves life: a child that computes, reads or swaps is not ended before `hungMs`, however late it answers.
 * I2  A child that answers its health check is hung only if a request waits and nothing at all moves for `stillMs`.
 * I3  Time counts only as observed: a suspended laptop adds one round.
 */
import { duration } from '@breakfall/faults/internal'
import type { ProbeResult } from './probes.ts'
import type { Limits } from './spec.ts'
import { hasWorked, type VitalSigns } from './vital-signs.ts'

export type Observation = {
  readonly nowMs: number
  readonly probe: ProbeResult
  readonly vitals: VitalSigns | undefined
  /** It printed something since the last observation. */
  readonly hasOutput: boolean
  /** Since the last byte on any request. Undefined if no request waits for the child. */
  readonly quietMs: number | undefined
}

export type HangState = {
  readonly atMs: number | undefined
  /** Where the vital signs stood when they last moved. */
  readonly baseline: VitalSigns | undefined
  readonly stillMs: number
  /** Failed probes in a row. */
  readonly failures: number
  readonly failingMs: number
}

export type HangVerdict = { readonly reason: 'unhealthy' | 'no_progress'; readonly detail: string }

export type HangLimits = Pick<Limits, 'stillMs' | 'hungMs'> & {
  readonly failuresMax: number
  /** One round takes no longer, unless this process slept. */
  readonly roundMsMax: number
}

/** Nothing suspicious so far. */
export const NO_SUSPICION: HangState = { atMs: undefined, baseline: undefined, stillMs: 0, failures: 0, failingMs: 0 }

export function observe(
  before: HangState,
  seen: Observation,
  limits: HangLimits,
): { readonly state: HangState; readonly verdict: HangVerdict | undefined } {
  const elapsedMs = before.atMs === undefined ? 0 : Math.min(seen.nowMs - before.atMs, limits.roundMsMax) // I3
  const works = isWorking(before, seen, before.stillMs + elapsedMs)
  const failing = !seen.probe.ok
  const state: HangState = {
    atMs: seen.nowMs,
    baseline: works || before.baseline === undefined ? seen.vitals : before.baseline,
    stillMs: works ? 0 : before.stillMs + elapsedMs,
    failures: failuresAfter(before, seen, works),
    failingMs: failing ? before.failingMs + elapsedMs : 0,
  }
  return { state, verdict: failing ? failingVerdict(state, seen, limits) : stillVerdict(state, seen, limits) }
}

// ---- details, in the order they are used above ----

function isWorking({ baseline }: HangState, { vitals, hasOutput, probe, quietMs }: Observation, ms: number): boolean {
  if (hasOutput && !probe.ok) return true // after an answered probe, the output may be the log line about it
  // No evidence on this system: a busy server gets the benefit of the doubt.
  if (vitals === undefined) return quietMs !== undefined && !probe.ok
  return baseline !== undefined && hasWorked(baseline, vitals, ms)
}

/** I1 */
function failuresAfter({ failures }: HangState, { probe }: Observation, works: boolean): number {
  if (probe.ok) return 0
  return works && isUndecided(probe) ? 0 : failures + 1
}

/** No answer, or "not now": a busy server may do both. Any other answer is the child's own word that it is unhealthy. */
const isUndecided = ({ answer }: ProbeResult): boolean => answer === 'none' || answer === 'busy'

function failingVerdict(state: HangState, seen: Observation, limits: HangLimits): HangVerdict | undefined {
  const { probe, vitals } = seen
  const unhealthy = (detail: string): HangVerdict => ({ reason: 'unhealthy', detail })
  if (vitals?.isStopped === true) return unhealthy(`${probe.why}; one of its processes is stopped (SIGSTOP)`)
  if (probe.isNotListening && state.failures >= REFUSALS_MAX) return unhealthy(probe.why)
  if (state.failures >= limits.failuresMax) return unhealthy(probe.why)
  return state.failingMs >= limits.hungMs ? unhealthy(`${probe.why} for ${duration(state.failingMs)}`) : undefined
}

const REFUSALS_MAX = 2 // a port that refuses is closed; twice, because the child may be about to exit

/** I2 */
function stillVerdict({ stillMs }: HangState, seen: Observation, limits: HangLimits): HangVerdict | undefined {
  if (seen.vitals === undefined || seen.quietMs === undefined) return undefined
  if (seen.quietMs < limits.stillMs || stillMs < limits.stillMs) return undefined
  const detail = `it answers its health check, but has sent nothing and has not worked for ${duration(stillMs)}`
  return { reason: 'no_progress', detail }
}
