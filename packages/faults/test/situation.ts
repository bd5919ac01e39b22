/** A situation of each boundary in the middle of its work, and the time at which the tests decide. */
import type {
  AnswerSituation,
  CallSituation,
  EngineSituation,
  FaultReport,
  ProcessSituation,
  RunnerSituation,
  Situation,
} from '@breakfall/faults'

export const NOW = 1_800_000_000_000

const TURN = { failures: 1, waitedMs: 0, parking: { used: 0, usedMs: 0 }, deadlineAt: null } as const

export const answer = (more: Partial<AnswerSituation> = {}): AnswerSituation => ({
  at: 'answer',
  ...TURN,
  attempt: 1,
  contentStarted: true,
  free: { attempts: 0, failures: 0 },
  outage: { failures: 0, ms: 0 },
  fallbacks: 0,
  hasOtherFaults: false,
  compactions: 0,
  canCompact: true,
  cuts: 0,
  canTell: true,
  dice: 0.5,
  ...more,
})

export const runner = (more: Partial<RunnerSituation> = {}): RunnerSituation => ({
  at: 'runner',
  ...TURN,
  resolves: 0,
  resolvingMs: 0,
  dice: 0.5,
  ...more,
})

export const engine = (more: Partial<EngineSituation> = {}): EngineSituation => ({ at: 'engine', ...TURN, ...more })

export const call = (more: Partial<CallSituation> = {}): CallSituation => ({
  at: 'call',
  attempt: 1,
  awayMs: 0,
  dice: 0.5,
  ...more,
})

export const child = (more: Partial<ProcessSituation> = {}): ProcessSituation => ({
  at: 'process',
  failuresInARow: 1,
  failuresInWindow: 1,
  wasReady: true,
  verdict: 'worth_it',
  dice: 0.5,
  ...more,
})

/** Where a fault of this kind usually shows up. */
export const usual = ({ next }: Pick<FaultReport, 'next'>): Situation =>
  next === 'resolve' ? runner() : next === 'restart' ? child() : answer()
