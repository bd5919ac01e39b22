/** What a daemon is started with. Resolved once at the door; inside, nothing is optional. */
import { type Policy, POLICY_DEFAULTS } from '@breakfall/faults'
import type { AnswerRequest, ApiName, ProfileName, TryEvent, TryOptions } from '@breakfall/model'
import type { IsolationLevel, PolicyInput } from '@breakfall/wire'
import { DEFAULT_SYSTEM_PROMPT } from './system-prompt.ts'

export type ModelEndpoint = {
  readonly baseUrl: string
  readonly name: string
  readonly api?: ApiName | undefined
  readonly apiKey?: string | undefined
  readonly profile?: ProfileName | undefined
}

export type ModelConfig = ModelEndpoint & {
  readonly fallback?: readonly Partial<ModelEndpoint>[] | undefined
  /** A local model server to run instead of calling `baseUrl`. Each start replaces `{port}` in the command with a free port. */
  readonly serve?: { readonly command: readonly string[] } | undefined
}

export type RunnerConfig = {
  /** Where a runner is. Left out, with no resolver either: one is adopted or started on this machine. */
  readonly url?: string | undefined
  readonly tokenFile?: string | undefined
  readonly resolveCommand?: readonly string[] | undefined
  readonly resolveUrl?: string | undefined
  readonly isolation?: IsolationLevel | undefined
  readonly allowWorkspace?: readonly string[] | undefined
}

/** What may change while the daemon runs: read again for every answer, for every look-up, and to wake who waits for a key. */
export type LiveConfig = { readonly model: ModelConfig; readonly runner: RunnerConfig }

export type RecoveryScope = 'all' | 'requested'

export type DaemonOptions = {
  readonly stateDir: string
  readonly model: ModelConfig
  readonly runner?: RunnerConfig | undefined
  /** Reads the configuration anew. Left out: it never changes. */
  readonly reload?: (() => LiveConfig | Promise<LiveConfig>) | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly tokenFile?: string | undefined
  readonly policy?: PolicyInput | undefined
  readonly systemPrompt?: string | undefined
  readonly logLevel?: string | undefined
  /** Where log lines go; the process's stderr where left out. */
  readonly logTo?: { write(line: string): void } | undefined
  /** How to start a runner on this machine: program and arguments before the flags. */
  readonly runnerProgram?: readonly string[] | undefined
  /** How long a runner that we started stays without a daemon and without work. */
  readonly runnerIdleExitMs?: number | undefined
  /** What else `daemon.json` says, for whoever looks for this daemon. */
  readonly fileFields?: Readonly<Record<string, unknown>> | undefined
  /**
   * Which turns that an earlier daemon left, parked or in the middle, it goes on with: all of them, or only those that a
   * client asks for with a resume, a prompt or a cancel. To look at one is not to ask for it.
   */
  readonly recover?: RecoveryScope | undefined
  /** For one caller in this process: no file says where it is. */
  readonly isMomentary?: boolean | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  /** Stands in for the model client. */
  readonly tryAnswer?: ((request: AnswerRequest, options: TryOptions) => AsyncIterable<TryEvent>) | undefined
  /** For tests: called at named points, and may kill the process there. */
  readonly failpoint?: ((name: string) => void) | undefined
  /** For tests of a full disk: pages that the journal may grow to. */
  readonly journalPagesMax?: number | undefined
  readonly limits?: Partial<DaemonLimits> | undefined
}

export const DAEMON_LIMITS = {
  heartbeatMs: 15_000, // proxies give up on a silent connection after 30 to 60 s
  readerLagBytesMax: 1024 * 1024, // a reader that takes nothing while that much is published is closed
  readerStallMsMax: 60_000, // or one that takes nothing for that long
  readerLingerMs: 5_000, // for a slow reader to take what is on its way to it, and the reason
  shutdownMs: 5_000, // for turns to be handed over and answers to be finished
  probeMsFirst: 5_000, // a parked turn looks whether it can go on: first after that, then less often
  killMsMax: 10_000, // how long a cancel waits for the word that the process is gone
  checkMs: 1_000, // a new session waits so long for the runner's word about its box, which takes milliseconds where all is well
  sessionsIdleMax: 2_000, // kept in memory without a turn and without a reader
  idleCharsMax: 64 * 1024 * 1024, // what the journals of those hold together: a long conversation is read again in a blink
} as const

export type DaemonLimits = { readonly [Name in keyof typeof DAEMON_LIMITS]: number }

export function resolvePolicy(...inputs: readonly PolicyInput[]): Policy {
  const defined = inputs.map((input) =>
    Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)),
  )
  return Object.assign({}, POLICY_DEFAULTS, ...defined) as Policy
}

export const systemPromptOf = (options: DaemonOptions): string => options.systemPrompt ?? DEFAULT_SYSTEM_PROMPT
