/** How a run starts its own daemon: its folder, its isolation level, and its model as variables of that process. */
import type { ChildDaemonOptions } from '../daemon/child.ts'
import { isReachable, type ModelChoice, type ReachableModel } from '../model/choose.ts'
import type { Output } from '../render/output.ts'
import type { RunContext } from './options.ts'

/** The key is not copied: the child inherits the variable that holds it. */
export function childDaemonFor(
  { config, options, out }: RunContext,
  choice: ModelChoice,
  folder: string,
): ChildDaemonOptions {
  const level = options.isolation ?? config.runner.isolation
  return {
    args: [
      '--state-dir',
      config.stateDir,
      '--allow-workspace',
      folder,
      ...(level === 'process' ? ['--allow-isolation', 'process'] : []),
    ],
    env: { ...config.childEnv, ...(isReachable(choice) ? modelVariables(choice) : {}) },
    cwd: folder,
    onRestart: onRestart(out),
  }
}

export const onRestart = (out: Output) => (): void =>
  out.say("the run's daemon died; restarting it, and the turn continues")

const modelVariables = ({ baseUrl, name, api, profile }: ReachableModel): Record<string, string> => ({
  BREAKFALL_MODEL_BASE_URL: baseUrl,
  ...(name === undefined ? {} : { BREAKFALL_MODEL_NAME: name }),
  BREAKFALL_MODEL_API: api,
  ...(profile === undefined ? {} : { BREAKFALL_MODEL_PROFILE: profile }),
})
