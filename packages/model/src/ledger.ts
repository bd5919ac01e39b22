/** An attempt as it stands in the ledger. */
import type { FaultReport } from '@breakfall/faults'
import type { AttemptPhase, AttemptRecord, FailedAction, Usage } from './answer.ts'
import type { AttemptEnd } from './attempt.ts'
import type { AnswerState } from './parts.ts'
import { NO_USAGE, usageOf } from './usage.ts'

export type AttemptFacts = {
  readonly attempt: number
  readonly model: string
  readonly baseUrl: string
  readonly startedAt: string
  /** Undefined where it could not even be sent. */
  readonly end: AttemptEnd | undefined
  readonly resumed: boolean
  readonly usage: Usage
  readonly fault: FaultReport | null
  readonly action: FailedAction | null
  readonly delayMs: number
}

export function recordOf({ end, ...facts }: AttemptFacts): AttemptRecord {
  return { ...facts, durationMs: Math.round(end?.durationMs ?? 0), phase: phaseOf(end), bytes: end?.bytes ?? 0 }
}

/** A refusal came with the headers; its body is no answer. */
export function phaseOf(end: AttemptEnd | undefined): AttemptPhase {
  return end?.refusal === undefined ? (end?.phase ?? 'connect') : 'headers'
}

/** A request that was refused, or never sent, has cost nothing; of one that a server failed over nobody knows. */
export function attemptUsage(end: AttemptEnd | undefined, state: AnswerState): Usage {
  const status = end?.refusal?.status
  const neverSeen = end === undefined || end.phase === 'connect' || (status !== undefined && status < 500)
  return neverSeen ? NO_USAGE : usageOf(state)
}
