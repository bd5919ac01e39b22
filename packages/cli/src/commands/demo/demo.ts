/** `breakfall demo`: the console with a scripted model, real tools, and buttons that break things. No key, no model, no trace. */
import { DaemonClient } from '@breakfall/client'
import { EXIT_CODES } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import { openConsole } from '../../console/open.ts'
import { chosenIsolation, withoutBreakfall } from '../../demo-setup/demo-setup.ts'
import { cmd, shellQuoted } from '../../process/command-name.ts'
import { untilSignal } from '../../terminal/interrupt.ts'
import { startDemoControl } from './buttons.ts'
import { demoDaemon } from './demo-daemon.ts'

export type DemoOptions = {
  readonly port?: number
  /** Only prints the address. */
  readonly print?: boolean
  /** Which faults are injected from the start. */
  readonly plan?: string
  readonly isolation?: 'bwrap' | 'process'
}

export async function demoCommand({ out, config }: Context, options: DemoOptions): Promise<number> {
  out.surviveClosedStdout()
  const stopped = untilSignal()
  const isolation = chosenIsolation(options.isolation, 'this demo', out)
  await using started = new AsyncDisposableStack()
  const setup = await startDemoControl({ isolation, plan: options.plan ?? 'none' })
  started.defer(() => setup.close())
  const { supervised, address, start } = demoDaemon(setup, {
    args: [
      ...(options.port === undefined ? [] : ['--port', String(options.port)]),
      ...(isolation === 'process' ? ['--allow-isolation', 'process'] : []),
    ],
    env: withoutBreakfall(config.childEnv),
    onRestart: () => out.say('the daemon was killed; it restarts, and its turns continue'),
  })
  started.defer(async () => void (await supervised.stop()))
  await Promise.race([start(), stopped])
  const found = address()
  if (found !== undefined) {
    const { url } = found
    if (out.json) out.data({ event: 'listening', url, pid: process.pid, console: `${url}/` })
    const client = new DaemonClient(found)
    await openConsole(client, { out, path: '/demo', browse: options.print === true ? undefined : config.childEnv })
    if (!out.json) {
      out.line(out.style('dim', `to open it again: ${cmd('open')} --state-dir ${shellQuoted(setup.stateDir)}`))
      out.line(out.style('dim', 'stop with Ctrl-C; everything is in a scratch folder, which is removed then'))
    }
  }
  await stopped
  return EXIT_CODES.finished
}
