/** What to run and how to judge its health. */
import type { Clock } from './clock.ts'
import type { JudgedReport } from './report.ts'

/** Proof that the child can serve. If a port is probed, the child itself must listen there, unless `prove` is false. */
export type Ready =
  | { readonly kind: 'spawned' }
  | { readonly kind: 'line'; readonly pattern: RegExp; readonly stream?: 'stdout' | 'stderr' }
  | { readonly kind: 'notify' }
  | ({ readonly kind: 'http'; readonly url: string; readonly prove?: boolean } & ProbeTiming)
  | ({ readonly kind: 'tcp'; readonly host?: string; readonly port: number; readonly prove?: boolean } & ProbeTiming)
  | ({ readonly kind: 'probe'; readonly probe: Probe } & ProbeTiming)

/** Probed at intervals once the child is ready. Without it, only the exit of the child says that it is dead. */
export type Alive =
  | ({ readonly kind: 'http'; readonly url: string; readonly failuresMax?: number } & ProbeTiming)
  | ({
      readonly kind: 'tcp'
      readonly host?: string
      readonly port: number
      readonly failuresMax?: number
    } & ProbeTiming)
  | ({ readonly kind: 'probe'; readonly probe: Probe; readonly failuresMax?: number } & ProbeTiming)

export type ProbeTiming = { readonly everyMs?: number; readonly timeoutMs?: number }
export type Probe = (context: { readonly pid: number; readonly signal: AbortSignal }) => Promise<boolean> | boolean

/** Settings for one run, such as a free port. */
export type Launch = {
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly ready?: Ready
  readonly alive?: Alive
}

export type Limits = Readonly<Record<LimitName, number>>

export const SUPERVISOR_DEFAULTS: Limits = {
  startMsMax: 120_000, // without progress; every line that the child prints counts as progress
  startTotalMsMax: 30 * 60_000, // the largest models take minutes to load from a cold disk
  stdinMs: 2_000, // enough for a stdio server that exits at the end of its input
  termMs: 5_000, // enough for a server to finish its open responses
  killMs: 5_000, // if SIGKILL has not worked by then, the process is stuck in the kernel
  drainMs: 1_000, // for output that a grandchild writes after the exit
  fatalMs: 1_000, // how long a process may live after it printed a fatal error
  quietMs: 10_000, // no byte on any request: time to ask the child how it is, long before a caller gives up
  stillMs: 60_000, // it answers its health check, but a request waits and nothing moves
  hungMs: 600_000, // no progress on a request; some models think for more than eight minutes
  backoffMs: 500, // first upper bound, doubled each time; full jitter
  stableMs: 60_000, // after that long in the ready state, the backoff starts over
  failuresMax: 5, // within the window; then the supervisor gives up
  windowMs: 10 * 60_000, // one crash a week is never a crash loop
  stdinBytesMax: 1024 * 1024, // written, but not read by the child
  stdinStallMs: 10_000, // how long the child may go without reading
}

export type LimitName =
  | 'startMsMax'
  | 'startTotalMsMax'
  | 'stdinMs'
  | 'termMs'
  | 'killMs'
  | 'drainMs'
  | 'fatalMs'
  | 'quietMs'
  | 'stillMs'
  | 'hungMs'
  | 'backoffMs'
  | 'stableMs'
  | 'failuresMax'
  | 'windowMs'
  | 'stdinBytesMax'
  | 'stdinStallMs'

export type SuperviseSpec = {
  readonly command: string
  readonly args?: readonly string[]
  /** Shown in reports; the name of the command by default. */
  readonly name?: string
  readonly cwd?: string
  /** Added to our environment, or the whole environment if `inheritEnv` is false. */
  readonly env?: Readonly<Record<string, string>>
  readonly inheritEnv?: boolean
  /** Called before each start. */
  readonly launch?: (run: { readonly runId: string; readonly attempt: number }) => Launch | Promise<Launch>
  readonly ready?: Ready
  readonly alive?: Alive
  /** The child exits with code 0 when its work is done. */
  readonly oneshot?: boolean
  /** `ignore` for a server that reads no input; a stop then starts with SIGTERM. */
  readonly stdin?: 'pipe' | 'ignore'
  /** The private channel on which the child may report readiness, progress and why it exits. */
  readonly channel?: 'fd3' | 'ipc' | 'none'
  /** Raw bytes, for protocols over stdout. */
  readonly onStdout?: (chunk: Buffer) => void
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void
  /** `fail` if stdout carries a protocol: a child that closes it is useless. With `onStdout`, it is not read as lines then. */
  readonly stdoutClosed?: 'ignore' | 'fail'
  /** Decides whether another start may help. Undefined leaves the decision to the diagnosis. */
  readonly mayRestart?: (report: JudgedReport) => boolean | undefined
  /** Folder in which running children are recorded for `sweepOrphans`. */
  readonly stateDir?: string
  readonly limits?: Partial<Record<LimitName, number>>
  readonly clock?: Clock
}

export type ResolvedSpec = Omit<Required<SuperviseSpec>, OptionalField> &
  Pick<SuperviseSpec, OptionalField> & { readonly limits: Limits }
type OptionalField = 'launch' | 'alive' | 'onStdout' | 'onLine' | 'mayRestart' | 'stateDir'
