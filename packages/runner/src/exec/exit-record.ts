/**
 * How an exec ended, from the facts. Pure.
 *
 * I1  A code is what was seen, never made up: without an exit line there is none.
 * I2  `signaled` only where it is proven (the keeper's shell said so); a code over 128 alone is a guess and is called one.
 * I3  What we did to it is the cause, before what it did by itself.
 * I4  `spawn_failed` has a reason: the keeper's word where it gave one, else what a second look at the command finds.
 */
import { constants } from 'node:os'
import type { Diagnostic } from '@breakfall/faults'
import type { ExecCause, ExecExit, IsolationLevel, SpawnFailure } from '@breakfall/wire'
import { workspaceChanged } from './diagnostics.ts'
import type { KeeperStatus } from './status.ts'

/** Why the runner ended it. */
export const END_REASONS = ['timed_out', 'killed', 'box_stopped', 'output_limit', 'spawn_failed'] as const
export type EndReason = (typeof END_REASONS)[number]

export type ExitFacts = {
  readonly level: IsolationLevel
  readonly status: KeeperStatus
  /** False where it is certain that nothing ran: the claim was ours, or was never made. */
  readonly claimed: boolean
  /** Why the runner ended it; null if it did not. */
  readonly stop: EndReason | null
  /** Why it was not even given to a keeper. */
  readonly refusal?: SpawnFailure | undefined
  readonly oomKills: number
  readonly durationMs: number
  readonly survivors: readonly { readonly pid: number; readonly command: string }[]
  readonly stdoutBytes: number
  readonly stderrBytes: number
  readonly truncated: boolean
  readonly diagnostics: readonly Diagnostic[]
}

export function exitRecord(facts: ExitFacts, whyNotRunnable: () => SpawnFailure | undefined): ExecExit {
  const outcome = judge(facts)
  return {
    ...outcome,
    ...(outcome.cause === 'spawn_failed' ? { reason: reasonOf(facts, whyNotRunnable) } : {}),
    durationMs: facts.durationMs,
    survivors: [...facts.survivors],
    stdoutBytes: facts.stdoutBytes,
    stderrBytes: facts.stderrBytes,
    truncated: facts.truncated,
    diagnostics: [
      ...facts.diagnostics,
      ...(facts.status.refused ? [workspaceChanged] : []),
      ...oomDiagnostic(facts, outcome.cause),
    ].map((entry) => ({
      ...entry,
      evidence: [...entry.evidence],
    })),
  }
}

// ---- details ----

type Outcome = Pick<ExecExit, 'cause' | 'started' | 'code' | 'signal' | 'signalGuess'>

function judge(facts: ExitFacts): Outcome {
  const { status, stop } = facts
  const none = { code: null, signal: null, signalGuess: null }
  if (!facts.claimed) return { ...none, cause: stop ?? 'runner_lost', started: false }
  if (status.exit === undefined) {
    // I1. The keeper is gone. If we ended the tree, that is why; else nobody knows.
    return {
      ...none,
      cause: stop ?? 'runner_lost',
      started: status.pid === undefined && stop !== null ? null : startedOf(status),
    }
  }
  if (neverRan(facts)) return { ...none, cause: stop ?? 'spawn_failed', started: false }
  const end = codeOrSignal(facts, status.exit)
  const started = facts.stdoutBytes + facts.stderrBytes > 0 ? true : startedOf(status) // it may have been ended on its way there
  return { ...end, cause: stop ?? ownCause(facts, status.exit, end), started } // I3
}

/** I4 */
function reasonOf(facts: ExitFacts, whyNotRunnable: () => SpawnFailure | undefined): SpawnFailure {
  const { level, claimed, status, refusal } = facts
  if (refusal !== undefined) return refusal
  if (!claimed || status.exit === undefined) return 'no_process'
  if (status.refused) return 'cwd_missing' // the workspace is another folder now
  return whyNotRunnable() ?? (level === 'bwrap' ? 'sandbox_failed' : 'cwd_missing')
}

const startedOf = (status: KeeperStatus): boolean | null => (status.pid === undefined ? null : true)

/** Codes of a shell that did not get as far as the command: what it was told to do first failed. */
const BEFORE_COMMAND: ReadonlySet<number | undefined> = new Set([2, 126])

/**
 * The keeper could not get as far as the command, or the sandbox ended without having started it. A missing line alone
 * proves nothing: at level process a command can reach the status file.
 */
function neverRan({ level, status, stdoutBytes, stderrBytes }: ExitFacts): boolean {
  if (status.refused) return true
  if (status.pid === undefined) return BEFORE_COMMAND.has(status.exit) && stdoutBytes + stderrBytes === 0
  return level === 'bwrap' && status.sandboxExit === undefined && status.exit === 1
}

function codeOrSignal({ level, status }: ExitFacts, code: number): Pick<ExecExit, 'code' | 'signal' | 'signalGuess'> {
  const name = signalName(code)
  if (name === null) return { code, signal: null, signalGuess: null }
  if (level === 'process' && status.words.length > 0) return { code: null, signal: name, signalGuess: null } // I2
  return { code, signal: null, signalGuess: name }
}

function ownCause(facts: ExitFacts, code: number, end: Pick<ExecExit, 'signal'>): ExecCause {
  if (facts.oomKills > 0 && signalName(code) === 'SIGKILL') return 'oom_killed'
  return end.signal === null ? 'exited' : 'signaled'
}

export function signalName(code: number): string | null {
  if (code <= 128) return null
  return Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0] ?? null
}

function oomDiagnostic(facts: ExitFacts, cause: ExecCause): readonly Diagnostic[] {
  if (facts.oomKills === 0) return []
  return [
    {
      id: cause === 'oom_killed' ? 'oom_killed' : 'oom_killed_child',
      rank: cause === 'oom_killed' ? 'cause' : 'hint',
      message: `the kernel ended ${facts.oomKills} process${facts.oomKills === 1 ? '' : 'es'} of this exec for using more memory than the box has`,
      advice: 'raise limits.memoryMb of the box, or use less memory',
      retry: 'never',
      evidence: [`oom_kill ${facts.oomKills}`],
      count: facts.oomKills,
    },
  ]
}
