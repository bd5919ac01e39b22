/** The configuration as a daemon wants it: where the model is, where the runner is, which folders boxes may use. */
import type { DaemonOptions, LiveConfig } from '@breakfall/daemon'
import type { Config } from '../config/schema.ts'
import type { ModelChoice } from '../model/choose.ts'
import type { Context } from '../program.ts'
import { allowedFolders, grantedWorkspaces } from '../workspace/allowed.ts'

/** Where the model would be, if there were one. */
export const NO_MODEL = 'none:'

export function liveConfig(
  config: Config,
  choice: ModelChoice | undefined,
  { options, env, stateDir }: Context,
): Pick<DaemonOptions, 'model' | 'runner'> & LiveConfig {
  const { model, runner } = config
  const serve = model?.serve
  const allowWorkspace = [
    ...allowedFolders(runner?.allowWorkspace, 'runner.allowWorkspace'),
    ...allowedFolders(options['allowWorkspace'] as readonly string[] | undefined, '--allow-workspace'),
    ...grantedWorkspaces(stateDir),
  ]
  const isolation = options['allowIsolation'] === 'process' ? 'process' : runner?.isolation
  return {
    model: {
      baseUrl: choice?.baseUrl ?? NO_MODEL,
      name: model?.name ?? choice?.name ?? 'default',
      api: choice?.api,
      apiKey: choice?.apiKey,
      profile: (model?.profile ?? choice?.profile) as DaemonOptions['model']['profile'],
      fallback: (model?.fallback ?? []).map((entry) => ({
        ...(entry.baseUrl === undefined ? {} : { baseUrl: entry.baseUrl }),
        ...(entry.name === undefined ? {} : { name: entry.name }),
        ...(entry.api === undefined ? {} : { api: entry.api }),
        ...(entry.profile === undefined
          ? {}
          : { profile: entry.profile as NonNullable<DaemonOptions['model']['profile']> }),
        ...(entry.apiKeyEnv === undefined ? {} : { apiKey: env[entry.apiKeyEnv] }),
      })),
      ...(serve === undefined ? {} : { serve }),
    },
    runner: {
      url: runner?.url ?? config.remote_runner?.endpoint,
      tokenFile: runner?.tokenFile,
      resolveCommand: runner?.resolveCommand,
      resolveUrl: runner?.resolveUrl,
      isolation,
      allowWorkspace,
    },
  }
}
