/** `breakfall runner`: the runner in this process, until it is asked to end. */
import { EXIT_CODES } from '@breakfall/faults'
import { startRunner } from '@breakfall/runner'
import { join } from 'node:path'
import type { Context } from '../program.ts'
import { listenFault, prepareStateDir } from '../process/start-errors.ts'
import { untilAsked } from '../process/until-signal.ts'
import { allowedFolders } from '../workspace/allowed.ts'

export async function runnerCommand({ out, options, stateDir: base }: Context): Promise<number> {
  out.outlivesItsReader()
  const asked = untilAsked()
  const stateDir = prepareStateDir((options['stateDir'] as string | undefined) ?? join(base, 'runner'))
  const host = options['host'] as string
  const port = options['port'] as number
  const idle = options['idleExitMs'] as number | undefined
  const runner = await startRunner({
    stateDir,
    tokenFile: (options['tokenFile'] as string | undefined) ?? join(stateDir, 'token'),
    port,
    host,
    allowWorkspace: allowedFolders(options['allowWorkspace'] as string[] | undefined, '--allow-workspace'),
    allowIsolation: options['allowIsolation'] === 'process' ? ['process'] : [],
    hosts: (options['allowHost'] as string[] | undefined) ?? [],
    isolation: options['isolation'] as 'bwrap' | 'process' | undefined,
    idleExitMs: idle ?? null,
    onIdle: () => {
      out.end()
      process.exit(EXIT_CODES.finished)
    },
    onProblem: (line) => out.say(line),
  }).catch((error: unknown) => {
    throw listenFault(error, host, port)
  })
  if (out.json)
    out.data({
      event: 'listening',
      url: runner.url,
      runnerId: runner.runnerId,
      bootId: runner.bootId,
      pid: process.pid,
      isolation: runner.isolation,
    })
  else {
    out.line(`runner  ${runner.url}  (${runner.runnerId})`)
    out.line(`level   ${runner.isolation.level}`)
    out.line(`token   ${runner.tokenFile}`)
  }
  await asked
  await runner.close()
  return EXIT_CODES.finished
}
