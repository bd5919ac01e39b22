/**
 * The configuration as one value. Every choice between files, variables and flags is made here, once. Code after this point
 * reads no flag and no variable to choose a model, a runner or a daemon.
 */
import { hostname } from 'node:os'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Hold } from '@breakfall/model/names'
import type { PolicyInput, SameFolder } from '@breakfall/wire'
import type { Credentials } from './credentials.ts'
import type { Environment } from '@breakfall/supervisor/platform'
import type { LoadedConfig } from './load.ts'
import { type BoxSetting, resolveBox } from './box.ts'
import { type FallbackModel, fallbackModels, type ModelSetting, resolveModel } from './model.ts'
import { readLogin } from '@breakfall/mcp/logins'
import { type OutsideSetting, resolveOutside } from './outside.ts'
import { defaultStateDir } from './paths.ts'
import { configuredProviders, type ConfiguredProvider } from './providers.ts'
import { resolveRunner, type RunnerSetting } from './runner.ts'
import type { Config } from './schema.ts'

/** The daemon that commands talk to: the named one, or the one whose state folder this is. */
export type DaemonSetting =
  | { readonly kind: 'named'; readonly url: string; readonly token: string }
  | { readonly kind: 'local' }

export type StoreSetting = {
  readonly url: string
  readonly hintsUrl: string | undefined
  readonly name: string
  readonly leaseMs: number | undefined
  /** How long a daemon that stops lets its turns come to the end of their step. */
  readonly drainMs: number
}

export type ResolvedConfig = {
  readonly model: ModelSetting
  /** The providers of the configuration files. */
  readonly providers: readonly ConfiguredProvider[]
  /** The model that the user named, if any. */
  readonly modelName: string | undefined
  /** Tried in this order when the attempts with the first model are used up. */
  readonly fallbacks: readonly FallbackModel[]
  readonly runner: RunnerSetting
  readonly daemon: DaemonSetting
  readonly stateDir: string
  /** Undefined: the daemon takes the port of the last one, or a free one. */
  readonly port: number | undefined
  /** The shared store of a fleet. Undefined: a journal in the state folder. */
  readonly store: StoreSetting | undefined
  readonly fleet: NonNullable<Config['fleet']>
  /** How a runner of this machine joins a fleet. */
  readonly joining: Pick<
    NonNullable<Config['runner']>,
    'join' | 'advertise' | 'advertiseCommand' | 'labels' | 'capacity'
  >
  readonly policy: PolicyInput | undefined
  readonly limits: Config['limits']
  readonly agent: Config['agent']
  /** What a run does if another session works in its folder. */
  readonly sameFolder: SameFolder
  readonly retention: Config['retention']
  readonly otlpEndpoint: string | undefined
  readonly box: BoxSetting
  readonly outside: OutsideSetting
  /** The tools of sessions that runs create. Undefined: all. */
  readonly runTools: readonly string[] | undefined
  readonly gateway: { readonly upstream: string | undefined; readonly hold: Hold | undefined }
  readonly logLevel: string | undefined
  /** The checkout, if `npm start` started this. */
  readonly checkout: string | undefined
  /** What was set, and where: for `config show`. */
  readonly loaded: LoadedConfig
  /** What child processes inherit. */
  readonly childEnv: Environment
}

export function resolveConfig(loaded: LoadedConfig, env: Environment, credentials: Credentials = {}): ResolvedConfig {
  const { config } = loaded
  const providers = configuredProviders(loaded, env, credentials)
  const stateDir = config.daemon?.stateDir ?? defaultStateDir(env)
  return {
    model: resolveModel(loaded, providers, env),
    providers,
    modelName: config.model?.name,
    fallbacks: fallbackModels(config, providers, env),
    runner: resolveRunner(config),
    daemon: resolveDaemon(env),
    stateDir,
    port: config.daemon?.port,
    store: resolveStore(config),
    fleet: config.fleet ?? {},
    joining: config.runner ?? {},
    policy: config.policy,
    sameFolder: config.run?.sameFolder ?? 'wait', // nothing is lost by waiting, and two agents in the same files spoil each other's work
    limits: config.limits,
    agent: config.agent,
    retention: retentionOf(config),
    otlpEndpoint: config.telemetry?.otlpEndpoint,
    box: resolveBox(config, env),
    outside: resolveOutside(config, env, (name, url) => readLogin(stateDir, name, url)?.loggedInAt),
    runTools: config.run?.tools,
    gateway: { upstream: config.gateway?.upstream ?? config.model?.baseUrl, hold: config.gateway?.hold },
    logLevel: env['BREAKFALL_LOG'],
    checkout: env['npm_lifecycle_event'] === 'start' ? dirname(env['npm_package_json'] ?? '.') : undefined,
    loaded,
    childEnv: env,
  }
}

// ---- details ----

/** `keepDays` is what a fleet calls `sessionDays`. */
function retentionOf({ retention, fleet, daemon }: Config): Config['retention'] {
  if (fleet?.keepDays === undefined || daemon?.store === undefined) return retention
  return { ...retention, sessionDays: Math.min(fleet.keepDays, retention?.sessionDays ?? fleet.keepDays) }
}

function resolveStore({ daemon = {} }: Config): StoreSetting | undefined {
  const { store: url, hintsUrl, name = hostname(), leaseMs, drainMs = 0 } = daemon
  return url === undefined ? undefined : { url, hintsUrl, name, leaseMs, drainMs }
}

function resolveDaemon(env: Environment): DaemonSetting {
  const named = env['BREAKFALL_URL'] ?? ''
  if (named === '') return { kind: 'local' }
  return { kind: 'named', url: daemonUrl(named), token: env['BREAKFALL_TOKEN'] ?? '' }
}

function daemonUrl(named: string): string {
  if (!/^https?:\/\/[^\s/]+\/?$/.test(named) || !URL.canParse(named))
    throw new Fault('invalid_request', {
      error: `BREAKFALL_URL must be the address of a daemon, such as http://127.0.0.1:4711, got ${named}`,
    })
  return named.replace(/\/$/, '')
}
