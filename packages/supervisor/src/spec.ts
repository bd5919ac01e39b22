/** What to run and how to judge it. Bad specs are refused at the door, with every wrong field named. */
import path from 'node:path'
import { Fault, type FieldError } from '@breakfall/faults'
import { type Clock, systemClock } from './clock.ts'
import type { JudgedReport } from './report.ts'
import { launchErrors, specErrors } from './spec-errors.ts'

/** Proof that the child can serve. Where a port is asked, it must be *our* process that listens there. */
export type Ready =
  | { readonly kind: 'spawned' }
  | { readonly kind: 'line'; readonly pattern: RegExp; readonly stream?: 'stdout' | 'stderr' }
  | { readonly kind: 'notify' }
  | ({ readonly kind: 'http'; readonly url: string; readonly prove?: boolean } & Timing)
  | ({ readonly kind: 'tcp'; readonly host?: string; readonly port: number; readonly prove?: boolean } & Timing)
  | ({ readonly kind: 'probe'; readonly probe: Probe } & Timing)

/** Asked again and again once the child is ready. Without one, nobody but the child's exit says that it is dead. */
export type Alive =
  | ({ readonly kind: 'http'; readonly url: string; readonly failuresMax?: number } & Timing)
  | ({ readonly kind: 'tcp'; readonly host?: string; readonly port: number; readonly failuresMax?: number } & Timing)
  | ({ readonly kind: 'probe'; readonly probe: Probe; readonly failuresMax?: number } & Timing)

export type Timing = { readonly everyMs?: number; readonly timeoutMs?: number }
export type Probe = (context: { readonly pid: number; readonly signal: AbortSignal }) => Promise<boolean> | boolean

/** What changes from run to run, such as a free port. */
export type Launch = {
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly ready?: Ready
  readonly alive?: Alive
}

export type Limits = Readonly<Record<LimitName, number>>

export const SUPERVISOR_DEFAULTS: Limits = {
  startMsMax: 120_000, // without a sign of progress; every line that the child prints is one
  startTotalMsMax: 30 * 60_000, // the largest models load for minutes from a cold disk
  stdinMs: 2_000, // a stdio server that reads its end of input needs no more
  termMs: 5_000, // what a server needs to finish its open answers
  killMs: 5_000, // past that, not even SIGKILL helps: the process sits in the kernel
  drainMs: 1_000, // for output that a grandchild still holds back after the exit
  fatalMs: 1_000, // how long a process may go on after a line that means its end
  hungMs: 600_000, // no progress with a request in flight; models have been seen to think for over eight minutes
  backoffMs: 500, // first ceiling, doubled each time; full jitter
  stableMs: 60_000, // ready for that long: the backoff starts anew
  failuresMax: 5, // within the window, then it is given up
  windowMs: 10 * 60_000, // so that one crash a week is never a crash loop
  stdinBytesMax: 1024 * 1024, // written and not taken by the child
  stdinStallMs: 10_000, // how long the child may refuse to read
}

export type LimitName =
  | 'startMsMax'
  | 'startTotalMsMax'
  | 'stdinMs'
  | 'termMs'
  | 'killMs'
  | 'drainMs'
  | 'fatalMs'
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
  /** For people and reports; the command's name where it is missing. */
  readonly name?: string
  readonly cwd?: string
  /** Added to our own environment, or all there is where `inheritEnv` is false. */
  readonly env?: Readonly<Record<string, string>>
  readonly inheritEnv?: boolean
  /** Called before each start. */
  readonly launch?: (run: { readonly runId: string; readonly attempt: number }) => Launch | Promise<Launch>
  readonly ready?: Ready
  readonly alive?: Alive
  /** Ends by itself with code 0 when its work is done. */
  readonly oneshot?: boolean
  /** `ignore` for a server that does not care; the stop then begins with SIGTERM. */
  readonly stdin?: 'pipe' | 'ignore'
  /** The private line on which the child may send its last words. */
  readonly channel?: 'fd3' | 'ipc' | 'none'
  /** For protocols over stdout: raw bytes as they come. */
  readonly onStdout?: (chunk: Buffer) => void
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void
  /** `fail` where stdout carries a protocol: a child that closes it is of no more use. */
  readonly stdoutClosed?: 'ignore' | 'fail'
  /** Has the last word on whether another start may help. Undefined leaves it to the diagnosis. */
  readonly mayRestart?: (report: JudgedReport) => boolean | undefined
  /** Where it is noted what runs, for `sweepOrphans`. */
  readonly stateDir?: string
  readonly limits?: Partial<Record<LimitName, number>>
  readonly clock?: Clock
}

export type ResolvedSpec = Omit<Required<SuperviseSpec>, OptionalField> &
  Pick<SuperviseSpec, OptionalField> & { readonly limits: Limits }
type OptionalField = 'launch' | 'alive' | 'onStdout' | 'onLine' | 'mayRestart' | 'stateDir'

export function resolveSpec(input: SuperviseSpec): ResolvedSpec {
  const errors = specErrors(input, Object.keys(SUPERVISOR_DEFAULTS))
  if (errors.length > 0) refuse(errors)
  return {
    ...input,
    name: input.name ?? path.basename(input.command),
    args: [...(input.args ?? [])],
    cwd: path.resolve(input.cwd ?? '.'),
    env: { ...input.env },
    inheritEnv: input.inheritEnv ?? true,
    ready: input.ready ?? { kind: 'spawned' },
    oneshot: input.oneshot ?? false,
    stdin: input.stdin ?? 'pipe',
    channel: input.channel ?? 'fd3',
    stdoutClosed: input.stdoutClosed ?? 'ignore',
    limits: { ...SUPERVISOR_DEFAULTS, ...input.limits },
    clock: input.clock ?? systemClock,
  }
}

export function refuse(errors: readonly FieldError[]): never {
  throw new Fault('invalid_request', { error: `the process cannot be supervised: ${listed(errors)}`, errors })
}

/** What the caller's hook gave for this run. Throws where it is not what was asked for. */
export function checkedLaunch(launched: unknown): Launch {
  const errors = launchErrors(launched)
  if (errors.length > 0) throw new Fault('invalid_request', { error: listed(errors), errors })
  return (launched ?? {}) as Launch
}

const listed = (errors: readonly FieldError[]): string =>
  errors.map((error) => `${error.field} must be ${error.expected}, got ${error.got}`).join('; ')
