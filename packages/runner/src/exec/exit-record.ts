/**
 * How an exec ended, derived from the facts. Pure.
 *
 * I1  An exit code is never invented: without an exit line there is none.
 * I2  `signaled` needs proof (a message of the keeper's shell); a code above 128 alone is only a guess and reported as one.
 * I3  If the runner ended it, that is the cause, even if the command exited on its own meanwhile.
 * I4  `spawn_failed` has a reason: the keeper's if it gave one, else what a second check of the command finds.
 */
import { constants } from 'node:os'
import type { Diagnostic } from '@breakfall/faults'
import type { ExecCause, ExecExit, IsolationLevel, SpawnFailure } from '@breakfall/wire'
import { workspaceChanged } from './diagnostics.ts'
import type { KeeperStatus } from './keeper-status.ts'

/** Why the runner ended it. */
export const END_REASONS = ['timed_out', 'killed', 'box_stopped', 'output_limit', 'spawn_failed'] as const
export type EndReason = (typeof END_REASONS)[number]

export type ExitFacts = {
  readonly level: IsolationLevel
  readonly status: KeeperStatus
  /** False if nothing can have run: the runner holds the claim, or no one made it. */
  readonly claimed: boolean
  /** Why the runner ended it; null if it did not. */
  readonly stop: EndReason | null
  /** Why no keeper got the job. */
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
    // I1: the keeper is gone. If the runner ended the tree, that is the cause; otherwise it is unknown.
    return {
      ...none,
      cause: stop ?? 'runner_lost',
      started: status.pid === undefined && stop !== null ? null : startedOf(facts),
    }
  }
  if (neverRan(facts)) return { ...none, cause: stop ?? 'spawn_failed', started: false }
  const end = codeOrSignal(facts, status.exit)
  const started = facts.stdoutBytes + facts.stderrBytes > 0 ? true : startedOf(facts) // without a pid line it may have been ended before it started
  return { ...end, cause: stop ?? ownCause(facts, status.exit, end), started } // I3
}

/** I4 */
function reasonOf(facts: ExitFacts, whyNotRunnable: () => SpawnFailure | undefined): SpawnFailure {
  const { level, claimed, status, refusal } = facts
  if (refusal !== undefined) return refusal
  if (!claimed || status.exit === undefined) return 'no_process'
  if (status.refused) return 'cwd_missing' // the workspace path leads to another folder now
  return whyNotRunnable() ?? (level === 'bwrap' ? 'sandbox_failed' : 'cwd_missing')
}

const startedOf = ({ status }: ExitFacts): boolean | null => (status.pid === undefined || status.unused ? null : true)

/** Exit codes of a shell that failed before it reached the command. */
const BEFORE_COMMAND: ReadonlySet<number | undefined> = new Set([2, 126])

/**
 * The keeper failed before the command, or the sandbox ended without starting it. A missing line alone proves nothing: at
 * level process a command can change the status file.
 */
function neverRan({ level, status, stdoutBytes, stderrBytes }: ExitFacts): boolean {
  if (status.refused || status.unused) return true
  if (status.pid === undefined) return BEFORE_COMMAND.has(status.exit) && stdoutBytes + stderrBytes === 0
  return level === 'bwrap' && status.sandboxExit === undefined && status.exit === 1
}

function codeOrSignal({ level, status }: ExitFacts, code: number): Pick<ExecExit, 'code' | 'signal' | 'signalGuess'> {
  const name = signalName(code)
  if (name === null) return { code, signal: null, signalGuess: null }
  if (level === 'process' && status.messages.length > 0) return { code: null, signal: name, signalGuess: null } // I2: the message proves the signal
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
      message: `the kernel killed ${facts.oomKills} process${facts.oomKills === 1 ? '' : 'es'} of this exec because the box ran out of memory`,
      advice: 'raise limits.memoryMb of the box, or use less memory',
      retry: 'never',
      evidence: [`oom_kill ${facts.oomKills}`],
      count: facts.oomKills,
    },
  ]
}
