/** `breakfall runner`: serves a runner until a signal ends it. */
import { join } from 'node:path'
import { EXIT_CODES } from '@breakfall/faults'
import { startRunner } from '@breakfall/runner'
import type { RunnerFlags } from '@breakfall/runner/flags'
import type { Context } from '../../command-line/context.ts'
import { allowedMounts } from '../../config/allowed-folders.ts'
import { prepareStateDir, refuseWithoutFolder } from '../../process/state-folder.ts'
import { listenFault } from '../../process/system-errors.ts'
import { untilSignal } from '../../terminal/interrupt.ts'
import { hostIn, joiningOf, workspacesOf } from './joining.ts'

export type RunnerOptions = RunnerFlags & {
  readonly port: number
  readonly host: string
  readonly stateDir?: string
  readonly stopWhenAlone?: number
  /** A code of `breakfall fleet enroll`. */
  readonly enroll?: string
}

export async function runnerCommand({ out, config }: Context, options: RunnerOptions): Promise<number> {
  out.surviveClosedStdout()
  const stopped = untilSignal()
  const stateDir = prepareStateDir(options.stateDir ?? join(config.stateDir, 'runner'))
  const { host, port, tokenFile = join(stateDir, 'token') } = options
  refuseWithoutFolder(tokenFile)
  const { capacity } = config.joining
  const folders = workspacesOf(options.allowWorkspace)
  const joining = await joiningOf(config, { ...options, stateDir, tokenFile })
  const runner = await startRunner({
    ...options,
    stateDir,
    tokenFile,
    allowWorkspace: folders.all,
    allowMount: allowedMounts(options.allowMount ?? [], config.childEnv),
    allowIsolation: options.allowIsolation === 'process' ? ['process'] : [],
    hosts: [...(options.allowHost ?? []), ...hostIn(config.joining.advertise)],
    boxesMax: options.boxesMax ?? capacity ?? config.runner.boxesMax,
    join:
      joining === undefined
        ? undefined
        : {
            ...joining,
            sharedWorkspaces: folders.shared,
            onJoined: (daemon) => {
              if (out.json) out.data({ event: 'joined', daemon })
              else out.line(`joined  ${daemon}`)
            },
          },
    onIdle: () => {
      out.end()
      process.exit(EXIT_CODES.finished)
    },
    onProblem: (line) => out.say(line),
  }).catch((error: unknown) => {
    throw listenFault(error, host, port)
  })
  const { url, runnerId, bootId } = runner
  if (out.json) out.data({ event: 'listening', url, runnerId, bootId, pid: process.pid, isolation: runner.isolation })
  else {
    out.line(`runner  ${url}  (${runnerId})`)
    out.line(`level   ${runner.isolation.level}`)
    out.line(`token   ${runner.tokenFile}`)
  }
  await stopped
  await runner.close()
  return EXIT_CODES.finished
}
