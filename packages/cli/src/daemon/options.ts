/** The resolved configuration in the form that a daemon takes: the model, the runner, the folders that boxes may use. */
import type { DaemonOptions, LiveConfig } from '@breakfall/daemon'
import type { ResolvedConfig } from '../config/resolve.ts'
import type { RunnerSetting } from '../config/runner.ts'
import type { ModelChoice } from '../model/choose.ts'
import { allowedFolders, grantedMounts, grantedWorkspaces } from '../workspace/allowed.ts'

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
): Pick<DaemonOptions, 'model' | 'runner' | 'agent'> & LiveConfig {
  const { runner } = config
  const allowWorkspace = [
    ...allowedFolders(runner.allowWorkspace, 'runner.allowWorkspace'),
    ...allowedFolders(flags.allowWorkspace, '--allow-workspace'),
    ...grantedWorkspaces(config.stateDir),
  ]
  return {
    agent: config.agent,
    model: { ...modelOf(config, choice), fallback: config.fallbacks },
    runner: {
      ...addressOf(runner),
      isolation: flags.allowIsolation ?? runner.isolation,
      boxesMax: runner.boxesMax,
      level: runner.isolation,
      allowWorkspace,
      allowMount: grantedMounts(config.stateDir),
    },
  }
}

// ---- details, in the order they are used above ----

function modelOf({ model }: ResolvedConfig, choice: ModelChoice): DaemonOptions['model'] {
  if (choice.kind === 'none') return { baseUrl: NO_MODEL, name: model.name ?? 'default' }
  const { name = 'default', api, apiKey, profile } = choice
  if (choice.kind === 'served')
    return { baseUrl: NO_MODEL, name, api, apiKey, profile, serve: { command: choice.command } }
  return { baseUrl: choice.baseUrl, name, api, apiKey, profile }
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
