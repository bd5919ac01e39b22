/** A runner as a process of its own, for as long as we need it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Fault } from '@breakfall/faults'
import { startArguments } from '../process/self.ts'

export type RunnerProcess = {
  readonly url: string
  readonly tokenFile: string
  readonly level: string
  stop(): Promise<void>
}

const START_MS_MAX = 30_000
const IDLE_EXIT_MS = 120_000 // should nobody be left to stop it

export async function startRunnerProcess(options: {
  stateDir: string
  allowWorkspace: readonly string[]
  isolation: 'bwrap' | 'process' | undefined
}): Promise<RunnerProcess> {
  const tokenFile = join(options.stateDir, 'token')
  const args = ['runner', '--json', '--port', '0', '--state-dir', options.stateDir, '--token-file', tokenFile]
  args.push('--idle-exit-ms', String(IDLE_EXIT_MS))
  for (const folder of options.allowWorkspace) args.push('--allow-workspace', folder)
  if (options.isolation === 'process') args.push('--allow-isolation', 'process')
  const child = spawn(process.execPath, [...startArguments(), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4000)))
  const ended = once(child, 'exit')
  const listening = new Promise<{ url: string; level: string }>((resolve, reject) => {
    const failed = (why: string): void =>
      reject(new Fault('runner_unreachable', { error: `the runner ${why}`, errorRaw: said || why }))
    const timer = setTimeout(() => failed('did not start in time'), START_MS_MAX)
    ended.then(
      () => failed('ended while it was starting'),
      (cause: unknown) => reject(new Fault('runner_unreachable', { error: 'the runner could not be started', cause })),
    )
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.includes('"listening"')) return
      clearTimeout(timer)
      const { url, isolation } = JSON.parse(line) as { url: string; isolation: { level: string } }
      resolve({ url, level: isolation.level })
    })
  })
  const { url, level } = await listening
  return {
    url,
    tokenFile,
    level,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000)
      await ended
      clearTimeout(timer)
    },
  }
}
