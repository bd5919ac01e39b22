/** How a run starts a daemon of its own: its folders, its level of isolation, and the model as variables of that process. */
import type { ModelChoice } from '../model/choose.ts'
import type { Output } from '../render/output.ts'
import type { OwnDaemonOptions } from '../daemon/child.ts'
import type { RunContext } from './options.ts'

/** The key stays in its own variable, which the daemon's process inherits. */
export function ownDaemonFor(context: RunContext, choice: ModelChoice | undefined, folder: string): OwnDaemonOptions {
  const level = context.run.isolation ?? context.loaded.config.runner?.isolation
  return {
    args: [
      '--state-dir',
      context.stateDir,
      '--allow-workspace',
      folder,
      ...(level === 'process' ? ['--allow-isolation', 'process'] : []),
    ],
    env: { ...context.env, ...(choice === undefined ? {} : modelVariables(choice)) },
    cwd: folder,
    onRestart: onRestart(context.out),
  }
}

export const onRestart = (out: Output) => (): void =>
  out.say('the daemon of this run has died; starting it again, the turn goes on')

const modelVariables = ({ baseUrl, name, isGuessed, api, profile }: ModelChoice): Record<string, string> => ({
  BREAKFALL_MODEL_BASE_URL: baseUrl,
  ...(isGuessed ? {} : { BREAKFALL_MODEL_NAME: name }),
  BREAKFALL_MODEL_API: api,
  ...(profile === undefined ? {} : { BREAKFALL_MODEL_PROFILE: profile }),
})
