/** An attempt's record in the ledger. */
import type { FaultReport } from '@breakfall/faults'
import type { AttemptPhase, AttemptRecord, Usage } from '../contract/answer.ts'
import type { RungAction } from '../machine/next-rung.ts'
import type { AttemptEnd } from './attempt.ts'
import type { ReadAnswer } from '../dialects/read-answer.ts'
import { NO_USAGE, usageOf } from './usage.ts'

export type AttemptFacts = {
  readonly attempt: number
  readonly model: string
  readonly baseUrl: string
  readonly startedAt: string
  /** Undefined if the request could not even be sent. */
  readonly end: AttemptEnd | undefined
  readonly resumed: boolean
  readonly usage: Usage
  readonly fault: FaultReport | null
  readonly action: RungAction | null
  readonly delayMs: number
}

export function recordOf({ end, ...facts }: AttemptFacts): AttemptRecord {
  const { reattached = 0 } = end ?? {}
  const sizes = { durationMs: Math.round(end?.durationMs ?? 0), phase: phaseOf(end), bytes: end?.bytes ?? 0 }
  return { ...facts, ...sizes, ...(reattached > 0 ? { reattached } : {}) }
}

/** A refusal came with the headers; its body is not an answer. */
export function phaseOf(end: AttemptEnd | undefined): AttemptPhase {
  return end?.refusal === undefined ? (end?.phase ?? 'connect') : 'headers'
}

/** A request that was refused or never sent costs nothing. What a server used before it failed is unknown. */
export function attemptUsage(end: AttemptEnd | undefined, answer: ReadAnswer): Usage {
  const status = end?.refusal?.status
  const neverSeen = end === undefined || end.phase === 'connect' || (status !== undefined && status < 500)
  return neverSeen ? NO_USAGE : usageOf(answer)
}
