/** Temporary folders and daemons that end with the test. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { eventually } from '../../../../test/kit/wait.ts'
import { type Daemon, type DaemonOptions, startDaemon } from '../../src/index.ts'
import { readRunnerFile } from '../../../engine/src/runner/local-runner.ts'
import { Api } from './api.ts'
import { type Script, type ScriptedModel, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'

/** Short limits, to keep tests fast. */
export const QUICK = { probeMsFirst: 50, shutdownMs: 2_000, killMsMax: 5_000 } as const

export type Rig = {
  readonly daemon: Daemon
  readonly api: Api
  readonly model: ScriptedModel
  readonly stateDir: string
  restart(options?: Partial<DaemonOptions>): Promise<Rig>
}

/** A daemon in this process, with a scripted model and its own runner, which ends with the test. */
export async function rig(t: TestContext, script: Script, options: Partial<DaemonOptions> = {}): Promise<Rig> {
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  const stateDir = options.stateDir ?? tempFolder(t)
  const started = await startRig(t, model, { ...options, stateDir })
  atEnd(t, () => stopRunner(stateDir))
  return started
}

async function startRig(
  t: TestContext,
  model: ScriptedModel,
  options: Partial<DaemonOptions> & { stateDir: string },
): Promise<Rig> {
  const daemon = await startDaemon({
    model: { baseUrl: model.baseUrl, name: 'scripted' },
    logLevel: process.env['DAEMON_LOG'] ?? 'silent',
    policy: { backoffMs: 1 },
    ...options,
    limits: { ...QUICK, ...options.limits },
  })
  atEnd(t, () => daemon.close())
  const restart = async (changed: Partial<DaemonOptions> = {}): Promise<Rig> => {
    await daemon.close()
    return startRig(t, model, { ...options, ...changed })
  }
  return { daemon, api: new Api(daemon), model, stateDir: options.stateDir, restart }
}

/** The options of a daemon in a separate process, with a workspace; its model and its runner end with the test. */
export async function optionsFor(
  t: TestContext,
  script: Script,
): Promise<{ stateDir: string; options: Partial<DaemonOptions>; workspace: string; model: ScriptedModel }> {
  const folder = tempFolder(t)
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  const stateDir = join(folder, 'state')
  const workspace = join(folder, 'work')
  mkdirSync(workspace)
  atEnd(t, () => stopRunner(stateDir))
  const options = {
    stateDir,
    model: { baseUrl: model.baseUrl, name: 'scripted' },
    runner: { allowWorkspace: [workspace] },
    policy: { backoffMs: 1 },
    limits: QUICK,
  }
  return { stateDir, options, workspace, model }
}

/** Ends the runner that a daemon of this state folder started, by its own id, and waits: it writes there until its end. */
export async function stopRunner(stateDir: string): Promise<void> {
  const runner = readRunnerFile(stateDir)
  if (runner === undefined || !sent(runner.pid, 'SIGTERM')) return
  await eventually('the runner has ended', () => !sent(runner.pid, 0))
}

/** False if there is no such process. */
function sent(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
