/**
 * How a run ended, as one value, and the fault that reports it. Pure: facts in, report out.
 *
 * I1  Order of evidence: our own stop, a failed start, a cause that the child printed, the OOM-kill counter, the signal or
 *     exit code, a consequence that the child printed, the tail of its output.
 * I2  An exit that we did not ask for is a failure, whatever its code.
 * I3  Everything the child printed is redacted before it gets here.
 */
import { Fault, type FaultMessage, type SideEffects } from '@breakfall/faults'
import { cutStart, duration } from '@breakfall/faults/internal'
import type { TerminationError } from './channel.ts'
import { byRank, type Diagnosis, toDiagnostic } from './diagnostics.ts'
import { explainingLine } from './explaining-line.ts'
import { describeExit, diagnoseExit, type ExitStatus, readExit } from './exit-status.ts'
import { headline } from './headline.ts'
import type { StartReason } from './preflight.ts'
import { HAS_PROCESS_TABLE } from './platform.ts'

export type Phase = 'spawn' | 'starting' | 'ready' | 'busy' | 'stopping'

export type ExitKind = 'spawn_failed' | 'exited' | 'signaled' | 'killed_by_us' | 'hung' | 'oom_killed' | 'unhealthy'

/** Why we ended the child, if we did. */
export type EndReason =
  | 'stop'
  | 'restart'
  | 'start_limit'
  | 'no_progress'
  | 'unhealthy'
  | 'fatal_signature'
  | 'stdout_closed'
  | 'stdin_stalled'

export type GiveUpReason = 'never_retry' | 'needs_change' | 'crash_loop'

export type RestartPlan = {
  /** Failures in a row, including this one. */
  readonly attempt: number
  /** Failures within the window, including this one. */
  readonly windowCount: number
} & (
  | { readonly decision: 'restart'; readonly delayMs: number; readonly because: string }
  | { readonly decision: 'give_up'; readonly delayMs: null; readonly because: GiveUpReason }
  | { readonly decision: 'none'; readonly delayMs: null; readonly because: 'asked' }
)

export type ExitReport = ExitStatus & {
  readonly childId: string
  readonly name: string
  readonly runId: string
  readonly pid: number | null
  readonly phase: Phase
  readonly kind: ExitKind
  readonly expected: boolean
  readonly endedBy: EndReason | null
  /** More about `endedBy`, such as what the failed probe returned. */
  readonly endedDetail: string | null
  readonly startReason: StartReason | null
  /** The stop ladder had to use SIGKILL. */
  readonly forced: boolean
  readonly abandoned: boolean
  readonly startedAt: string
  readonly uptimeMs: number
  /** The headline first. */
  readonly diagnoses: readonly Diagnosis[]
  readonly terminationError: TerminationError | null
  readonly stderrTail: readonly string[]
  readonly stdoutTail: readonly string[]
  readonly droppedBytes: number
  readonly drainCut: boolean
  readonly inFlight: readonly string[]
  /** Descendants that outlived the child and were killed. */
  readonly survivors: readonly number[]
  /** `group-only`: this system does not show processes that left the group. */
  readonly sweep: 'all' | 'group-only'
  readonly restart: RestartPlan
}

/** A report before the restart decision. */
export type JudgedReport = Omit<ExitReport, 'restart'>

export type ExitFacts = Omit<
  ExitReport,
  keyof ExitStatus | 'kind' | 'expected' | 'diagnoses' | 'restart' | 'startReason'
> & {
  readonly command: string
  readonly rawCode: number | null
  readonly rawSignal: string | null
  readonly startReason: StartReason | null
  readonly startDetail: string | null
  readonly oneshot: boolean
  readonly oomKills: number
  readonly diagnoses: readonly Diagnosis[]
  /** On the same clock as the diagnoses. */
  readonly nowMs: number
}

/** What is known about a run that never became a process. */
export const NO_FACTS = {
  pid: null,
  phase: 'spawn',
  rawCode: null,
  rawSignal: null,
  startReason: null,
  startDetail: null,
  oneshot: false,
  oomKills: 0,
  endedBy: null,
  endedDetail: null,
  forced: false,
  abandoned: false,
  uptimeMs: 0,
  diagnoses: [],
  terminationError: null,
  stderrTail: [],
  stdoutTail: [],
  droppedBytes: 0,
  drainCut: false,
  inFlight: [],
  survivors: [],
  sweep: HAS_PROCESS_TABLE ? 'all' : 'group-only',
} as const satisfies Partial<ExitFacts>

export function judge(facts: ExitFacts): JudgedReport {
  const { command, oneshot, startDetail: _detail, oomKills: _kills, nowMs: _now, ...rest } = facts
  const status = readExit(facts.rawCode, facts.rawSignal, command)
  const kind = kindOf(facts, status)
  const asked = facts.endedBy === 'stop' || facts.endedBy === 'restart'
  const expected = asked || (oneshot && status.code === 0 && kind === 'exited') // I2: what we did not ask for is a failure
  const own = expected ? undefined : ownDiagnosis(facts, status, kind)
  return { ...rest, ...status, kind, expected, diagnoses: ranked(facts, own) }
}

/** The fault for everyone who depends on the child. */
export function faultOf(
  report: JudgedReport & { readonly restart?: RestartPlan },
  more: { readonly sideEffects?: SideEffects; readonly requestId?: string; readonly cause?: unknown } = {},
): Fault {
  const plan = report.restart
  return new Fault(categoryOf(report), {
    message: messageOf(report),
    errorRaw: rawText(report),
    phase: report.phase,
    diagnostics: report.diagnoses.map(toDiagnostic),
    ...(report.startReason === null ? {} : { reason: report.startReason }),
    ...nextOf(plan),
    ...more,
  })
}

/** What happened to which process after how long and why; and what the supervisor does about it. */
export function messageOf(report: JudgedReport & { readonly restart?: RestartPlan }): FaultMessage {
  const [head] = report.diagnoses
  const isCause = head?.rank === 'cause'
  const isConsequence = head?.rank === 'consequence' && ownLine(report) === undefined // else its own line says more
  const why = isCause || isConsequence ? `: ${headline(head.message, head.advice)}` : lastOutput(report)
  const happened = `${report.name} ${ended(report)}${why.replace(/[.;]?$/, '.')}`
  return { happened, action: planned(report.restart), advice: '' } // `why` includes the advice
}

// ---- details, in the order they are used above ----

function nextOf(plan: RestartPlan | undefined): { readonly next?: 'restart' | 'never'; readonly stopped?: string } {
  if (plan === undefined) return {}
  return plan.decision === 'restart' ? { next: 'restart' } : { next: 'never', stopped: plan.because }
}

function kindOf(facts: ExitFacts, status: ExitStatus): ExitKind {
  if (facts.startReason !== null) return 'spawn_failed'
  if (facts.endedBy === 'start_limit' || facts.endedBy === 'no_progress' || facts.endedBy === 'stdin_stalled')
    return 'hung'
  if (facts.endedBy === 'unhealthy') return 'unhealthy'
  if (facts.endedBy !== null) return 'killed_by_us'
  if (status.signal === 'SIGKILL' && facts.oomKills > 0) return 'oom_killed'
  return status.signal === null ? 'exited' : 'signaled'
}

/** What we know beyond what the child printed. */
function ownDiagnosis(facts: ExitFacts, status: ExitStatus, kind: ExitKind): Diagnosis | undefined {
  if (kind === 'spawn_failed') {
    const message = facts.startDetail ?? 'it could not be started'
    const retry = facts.startReason === 'resources' ? 'after_backoff' : 'never' // a full machine frees up again
    return diagnosis(`start.${facts.startReason}`, message, START_ADVICE[facts.startReason ?? 'other'], retry, facts)
  }
  if (kind === 'oom_killed') {
    const advice = 'Use a smaller model or context, or give the process more memory.'
    return diagnosis('exit.oom_killed', 'the system ran out of memory and killed it', advice, 'after_backoff', facts)
  }
  if (facts.endedBy !== null) return undefined // the status only shows our signal
  return diagnoseExit(status, facts.command, facts.nowMs)
}

function diagnosis(
  id: string,
  message: string,
  advice: string,
  retry: Diagnosis['retry'],
  facts: ExitFacts,
): Diagnosis {
  const seen = { firstSeenMs: facts.nowMs, lastSeenMs: facts.nowMs }
  return { id, rank: 'cause', message, advice, retry, evidence: [message], count: 1, fatal: false, ...seen }
}

const START_ADVICE: Readonly<Record<StartReason, string>> = {
  not_found: 'Install it, or use its full path.',
  not_executable: 'Make it executable (chmod +x), or choose another file.',
  bad_interpreter: 'Install the interpreter, or fix the first line of the script.',
  wrong_architecture: 'Install the build for this computer.',
  cwd_missing: 'Create the folder, or fix the path.',
  cwd_not_directory: 'Set cwd to a folder.',
  cwd_forbidden: 'Make the folder accessible (chmod +x), or use another one.',
  argument_too_long: 'Pass long values in a file instead.',
  resources: 'End other processes or raise the limits, then start it again.',
  other: 'Fix the problem, then start it again.',
}

const STALE_MS = 60_000 // a cause printed long before the exit is not the headline

/** I1: recent causes that the child printed, our own diagnosis, older causes, consequences, hints. */
function ranked(facts: ExitFacts, own: Diagnosis | undefined): readonly Diagnosis[] {
  const printed = facts.diagnoses.toSorted(byRank)
  const isFresh = (entry: Diagnosis): boolean => facts.nowMs - entry.lastSeenMs <= STALE_MS
  const fresh = printed.filter((entry) => entry.rank === 'cause' && isFresh(entry))
  const stale = printed.filter((entry) => entry.rank === 'cause' && !isFresh(entry))
  const rest = printed.filter((entry) => entry.rank !== 'cause')
  const first =
    facts.startReason === null ? [...fresh, ...(own === undefined ? [] : [own])] : own === undefined ? [] : [own]
  const all = facts.startReason === null ? [...first, ...stale, ...rest] : [...first, ...printed]
  return all.filter((entry, index) => all.findIndex((other) => other.id === entry.id) === index)
}

function categoryOf(
  report: Pick<ExitReport, 'kind' | 'expected'>,
): 'process_start_failed' | 'process_hung' | 'process_failed' | 'cancelled' {
  if (report.expected) return 'cancelled'
  if (report.kind === 'spawn_failed') return 'process_start_failed'
  return report.kind === 'hung' || report.kind === 'unhealthy' ? 'process_hung' : 'process_failed'
}

function ended(report: JudgedReport): string {
  if (report.kind === 'spawn_failed') return 'could not be started'
  const after = ` after ${duration(report.uptimeMs)}`
  const during = PHASE_WORDS[report.phase]
  if (report.endedBy !== null) {
    const detail = report.endedDetail === null ? '' : ` (${report.endedDetail})`
    const byUs = report.expected ? '' : ' and was ended'
    return `${ENDED_WORDS[report.endedBy]}${detail}${byUs}${report.forced ? ' by force' : ''}${after}`
  }
  return `${describeExit(report)}${during}${after}`
}

const PHASE_WORDS: Readonly<Record<Phase, string>> = {
  spawn: '',
  starting: ' while it was starting',
  ready: '',
  busy: ' in the middle of a request',
  stopping: '',
}

const ENDED_WORDS: Readonly<Record<EndReason, string>> = {
  stop: 'was stopped on request',
  restart: 'was restarted on request',
  start_limit: 'did not become ready in time',
  no_progress: 'made no progress on a request',
  unhealthy: 'stopped answering its health check',
  fatal_signature: 'hit a fatal error',
  stdout_closed: 'closed its output',
  stdin_stalled: 'stopped reading its input',
}

function lastOutput(report: JudgedReport): string {
  if (report.expected) return ''
  const own = ownLine(report)
  if (own !== undefined) return `: ${cutStart(own, LINE_CHARS_MAX)}`
  const last = report.stderrTail.findLast((line) => line.trim() !== '')
  return last === undefined ? '' : `; its last line was: ${cutStart(last.trim(), LINE_CHARS_MAX)}`
}

const LINE_CHARS_MAX = 300

/** Its own explanation, in its own words. Of a start only: a server that has served prints errors of single requests, too. */
function ownLine({ terminationError, stderrTail, phase, endedBy }: JudgedReport): string | undefined {
  if (terminationError !== null) return `${terminationError.name}: ${terminationError.message}`
  return phase === 'starting' && endedBy === null ? explainingLine(stderrTail) : undefined
}

function planned(plan: RestartPlan | undefined): string {
  if (plan === undefined || plan.decision === 'none') return ''
  if (plan.decision === 'restart') return `It restarts in ${duration(plan.delayMs)}.`
  return plan.because === 'crash_loop'
    ? `It failed ${plan.windowCount === 1 ? 'once' : `${plan.windowCount} times in a short time`} and does not restart automatically.`
    : 'It does not restart until that is fixed.'
}

function rawText(report: JudgedReport): string {
  const parts = [report.kind === 'spawn_failed' ? 'not started' : describeExit(report)]
  if (report.rawCode !== null && report.code !== report.rawCode) parts.push(`raw code ${report.rawCode}`)
  const said = report.terminationError
  if (said !== null) parts.push(`${said.name}: ${said.message}`)
  for (const entry of report.diagnoses.slice(0, 3)) parts.push(`${entry.id}: ${entry.evidence.join(' / ')}`)
  const tail = report.stderrTail.slice(-5).join(' / ')
  if (tail !== '') parts.push(`stderr: ${tail}`)
  return parts.join('; ')
}
