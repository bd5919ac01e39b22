/** The resolved configuration in the form that a daemon takes: the model, the runner, the folders that boxes may use. */
import type { DaemonOptions } from '@breakfall/daemon'
import type { LiveConfig, ProviderConfig } from '@breakfall/engine'
import { modelFactsOf } from '@breakfall/wire/internal'
import { allowedFolders } from '../config/allowed-folders.ts'
import type { ConfiguredProvider } from '../config/providers.ts'
import type { ResolvedConfig } from '../config/resolve.ts'
import type { RunnerSetting } from '../config/runner.ts'
import type { ModelChoice } from '../model/choose.ts'

/** The base URL of a daemon without a model. */
export const NO_MODEL = 'none:'

export type RunnerFlags = {
  readonly allowWorkspace?: readonly string[]
  readonly allowIsolation?: 'process'
}

export function daemonSettings(
  config: ResolvedConfig,
  choice: ModelChoice,
  flags: RunnerFlags = {},
): Pick<DaemonOptions, 'model' | 'providers' | 'runner' | 'agent' | 'mcp' | 'tools' | 'retention'> & LiveConfig {
  const { runner } = config
  const allowWorkspace = [
    ...allowedFolders(runner.allowWorkspace, 'runner.allowWorkspace'),
    ...allowedFolders(flags.allowWorkspace, '--allow-workspace'),
  ]
  return {
    agent: config.agent,
    mcp: config.outside.mcp,
    tools: config.outside.tools,
    retention: config.retention,
    model: { ...modelOf(config, choice), fallback: config.fallbacks },
    providers: providersOf(config),
    runner: {
      ...addressOf(runner),
      isolation: flags.allowIsolation ?? runner.isolation,
      boxesMax: runner.boxesMax,
      level: runner.isolation,
      allowWorkspace: [...new Set(allowWorkspace)],
    },
  }
}

// ---- details, in the order they are used above ----

function modelOf({ model, providers }: ResolvedConfig, choice: ModelChoice): DaemonOptions['model'] {
  if (choice.kind === 'none') return { baseUrl: NO_MODEL, name: model.name ?? 'default' }
  const { name = 'default', provider } = choice
  const configured = providers.find((known) => known.name === provider)
  const isFromFile = choice.kind === 'served' || (choice.kind === 'remote' && choice.isFromFile)
  if (isFromFile && configured !== undefined) return { ...providerOf(configured), name, provider }
  if (choice.kind === 'served') return { baseUrl: NO_MODEL, name, provider }
  const { baseUrl, api, apiKey, apiKeyVariable, profile } = choice
  const facts = choice.kind === 'remote' ? modelFactsOf(choice) : {}
  return { baseUrl, name, provider, api, apiKey, apiKeyVariable, profile, ...facts, isFixed: true }
}

const providersOf = ({ providers }: ResolvedConfig): DaemonOptions['providers'] =>
  Object.fromEntries(providers.map((provider) => [provider.name, providerOf(provider)]))

function providerOf(provider: ConfiguredProvider): ProviderConfig {
  const { baseUrl = NO_MODEL, api, apiKey, apiKeyVariable, profile, serve } = provider
  return { baseUrl, api, apiKey, apiKeyVariable, profile, ...modelFactsOf(provider), serve }
}

function addressOf(runner: RunnerSetting): NonNullable<DaemonOptions['runner']> {
  if (runner.kind === 'local') return {}
  const { url, tokenFile, resolver } = runner
  switch (resolver?.kind) {
    case 'command':
      return { url, tokenFile, resolveCommand: resolver.command }
    case 'url':
      return { url, tokenFile, resolveUrl: resolver.url }
    case undefined:
      return { url, tokenFile }
  }
}
