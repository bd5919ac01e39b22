/** How a run starts its own daemon: its folder and its isolation level. Its model comes with its session. */
import type { ChildDaemonOptions } from '../daemon/child.ts'
import type { Output } from '../render/output.ts'
import type { RunContext } from './options.ts'

export function childDaemonFor({ config, options, out }: RunContext, folder: string): ChildDaemonOptions {
  const level = options.isolation ?? options.answer?.isolation ?? config.runner.isolation
  return {
    args: ['--state-dir', config.stateDir, ...(level === 'process' ? ['--allow-isolation', 'process'] : [])],
    env: config.childEnv,
    cwd: folder,
    onRestart: onRestart(out),
    onStart: (pid) => out.say(`daemon: pid ${pid}, for this run`),
  }
}

export const onRestart = (out: Output) => (): void =>
  out.say("the run's daemon died; restarting it, and the turn continues")
