/** The options of an engine. Resolved once at the door; inside, nothing is optional. */
import { fullPolicy, type Policy } from '@breakfall/faults'
import type { AnswerRequest, ApiName, ProfileName, TryEvent, TryOptions } from '@breakfall/model'
import type { McpLimits, McpServerConfig } from '@breakfall/mcp'
import type { ModelServerSpec } from '@breakfall/supervisor'
import type { AgentInput, IsolationLevel, PolicyInput, ProviderView } from '@breakfall/wire'
import type { ModelFacts } from '@breakfall/wire/internal'

/** A model server, and what is known about its models. */
export type ProviderConfig = ModelFacts & {
  readonly baseUrl: string
  readonly api?: ApiName | undefined
  readonly apiKey?: string | undefined
  /** The variable that holds the key, for messages to name. */
  readonly apiKeyVariable?: string | undefined
  readonly profile?: ProfileName | undefined
  /** A model server to run instead of calling `baseUrl`. Each start replaces `{port}` in the command with a free port. */
  readonly serve?: ServeConfig | undefined
  /** True: it is known by its address, because a variable or a flag set it. Otherwise it is known by its name. */
  readonly isFixed?: boolean | undefined
}

export type ModelEndpoint = ProviderConfig & { readonly name: string }

/** The default model, with its provider. */
export type ModelConfig = ModelEndpoint & {
  /** The provider's name. Default: `default`. */
  readonly provider?: string | undefined
  readonly fallback?: readonly Partial<ModelEndpoint>[] | undefined
}

export type ServeConfig = {
  readonly command: readonly string[]
  readonly healthPath?: string | undefined
  /** How long it may take to become ready. */
  readonly readyMs?: number | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

export type RunnerConfig = {
  /** The runner's address. Without it and without a resolver, a runner on this machine is adopted or started. */
  readonly url?: string | undefined
  readonly tokenFile?: string | undefined
  readonly resolveCommand?: readonly string[] | undefined
  readonly resolveUrl?: string | undefined
  readonly isolation?: IsolationLevel | undefined
  readonly allowWorkspace?: readonly string[] | undefined
  /** Folders that boxes may mount: `DIR:ro` or `DIR:rw`. */
  readonly allowMount?: readonly string[] | undefined
  /** The level of every box of a runner that we start; `isolation` only allows it. */
  readonly level?: IsolationLevel | undefined
  /** Boxes that a runner on this machine may run at once. */
  readonly boxesMax?: number | undefined
}

/** When ended sessions are deleted. Nothing is deleted unless a limit is set. */
export type RetentionConfig = {
  /** After this many days without a turn. */
  readonly sessionDays?: number | undefined
  /** The longest idle ones go first. */
  readonly sessionsMax?: number | undefined
  /** Of all sessions in the journal together. */
  readonly bytesMax?: number | undefined
}

/** A command of the user's own that a model may call. It runs in the box. */
export type CustomToolConfig = {
  readonly command: readonly string[]
  /** The JSON schema of its input. */
  readonly schema?: Readonly<Record<string, unknown>> | undefined
  readonly effect?: 'pure' | 'idempotent' | 'unsafe' | undefined
  readonly description?: string | undefined
}

/** What may change while the engine runs: read again for every answer and every look-up, and to wake turns that wait for a key. */
export type LiveConfig = {
  readonly model: ModelConfig
  /** The other providers, by name. */
  readonly providers?: Readonly<Record<string, ProviderConfig>> | undefined
  readonly runner: RunnerConfig
  readonly agent?: AgentInput | undefined
  /** Servers of tools, by name. */
  readonly mcp?: Readonly<Record<string, McpServerConfig>> | undefined
  /** The user's own tools, by name. */
  readonly tools?: Readonly<Record<string, CustomToolConfig>> | undefined
  /** Which ended sessions are deleted on a schedule. */
  readonly retention?: RetentionConfig | undefined
}

/** A turn that a daemon finds unfinished at its start. */
export type UnfinishedTurn = {
  readonly sessionId: string
  readonly turnId: string
  readonly workspace: string | null
  readonly model: string
  readonly provider: ProviderView | null
  /**
   * Cut off: it continues now. Waiting: it resumes at a time, or when a probe succeeds. Asking: it waits for an answer. Parked:
   * somebody has to change something.
   */
  readonly state: 'cut-off' | 'waiting' | 'asking' | 'parked'
  readonly category: string | null
}

export type RecoveryScope = 'all' | 'interrupted' | 'requested'

/** A store that several daemons share. */
export type SharedStore = {
  readonly url: string
  /** A direct connection for hints, if `url` leads to a pooler. */
  readonly hintsUrl?: string | undefined
  /** In the fleet. */
  readonly name: string
  readonly leaseMs?: number | undefined
  /** How long a daemon that stops lets its turns come to the end of their step. */
  readonly drainMs?: number | undefined
}

/** The runners that join the daemons of a shared store. */
export type FleetConfig = {
  /** Runner tokens are derived from it; the same for every daemon. Without it no runner can join. */
  readonly keyFile?: string | undefined
  /** A runner that is silent for this long is declared lost. Default: only a person can do that. */
  readonly replaceAfterMs?: number | undefined
}

export type EngineOptions = {
  readonly stateDir: string
  /** Without it, sessions are in a journal below `stateDir`. */
  readonly store?: SharedStore | undefined
  readonly fleet?: FleetConfig | undefined
  readonly model: ModelConfig
  readonly providers?: LiveConfig['providers']
  readonly runner?: RunnerConfig | undefined
  /** The system prompt, unless a session sets its own. */
  readonly agent?: AgentInput | undefined
  readonly mcp?: LiveConfig['mcp']
  readonly tools?: LiveConfig['tools']
  /** Limits of MCP servers, for tests. */
  readonly mcpLimits?: Partial<McpLimits> | undefined
  /** Reads the configuration again. Default: it never changes. */
  readonly reload?: (() => LiveConfig | Promise<LiveConfig>) | undefined
  /** The first model that a server lists, for sessions that name none. */
  readonly firstModel?: ((server: ProviderConfig) => Promise<string | undefined>) | undefined
  readonly policy?: PolicyInput | undefined
  readonly retention?: RetentionConfig | undefined
  /** How to start a runner on this machine: program, and arguments before the flags. */
  readonly runnerProgram?: readonly string[] | undefined
  /** How long a runner that we started keeps running without a daemon and without work. */
  readonly runnerIdleExitMs?: number | undefined
  /**
   * Which unfinished turns of an earlier daemon this daemon recovers: all; those that were cut off or that wait for a time or a
   * probe, but not those that wait for a person, until something changes from now on; or only those that a client requests with a
   * resume, a prompt or a cancel. Reading a session does not count as a request.
   */
  readonly recover?: RecoveryScope | undefined
  /** Called with what is about to be recovered. */
  readonly onRecover?: ((turns: readonly UnfinishedTurn[]) => void) | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
  /** Replaces the model client in tests. */
  readonly tryAnswer?: ((request: AnswerRequest, options: TryOptions) => AsyncIterable<TryEvent>) | undefined
  /** For tests: called at named points; it may kill the process. */
  readonly failpoint?: ((name: string) => void) | undefined
  /** For tests of a full disk: the journal may not grow past this many pages. */
  readonly journalPagesMax?: number | undefined
  readonly limits?: Partial<EngineLimits> | undefined
  /** For tests: limits of the model server that the daemon runs. */
  readonly modelServer?: Pick<ModelServerSpec, 'limits' | 'health'> | undefined
}

export const ENGINE_LIMITS = {
  shutdownMs: 5_000, // for turns to be handed over and responses to finish
  probeMsFirst: 5_000, // first probe of a parked turn; later probes are less frequent
  killMsMax: 10_000, // how long a cancel waits for the process to be gone
  checkMs: 1_000, // how long a new session waits for the runner to check its box, which normally takes milliseconds
  sessionsIdleMax: 2_000, // sessions in memory without a turn and without a reader
  idleCharsMax: 64 * 1024 * 1024, // total size of their journals; a long conversation is loaded again quickly
  boxSweepMs: 60_000, // between two looks for boxes that an earlier process left running
  mcpGraceMs: 5_000, // how long the start of a turn waits for servers of tools; an installed server is ready by then
  retentionMs: 60_000, // between two passes of retention, each of which is one short query if there is nothing to delete
} as const

export type EngineLimits = { readonly [Name in keyof typeof ENGINE_LIMITS]: number }

export function resolvePolicy(...inputs: readonly PolicyInput[]): Policy {
  const defined = inputs.map((input) =>
    Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)),
  )
  return fullPolicy(Object.assign({}, ...defined))
}
