/** A runner as a child process, for the length of a rehearsal or a demo. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Fault } from '@breakfall/faults'
import { startArguments } from '../process/self.ts'

export type RunnerProcess = {
  readonly url: string
  readonly tokenFile: string
  /** SIGKILL. */
  kill(): void
  /** Settles when it has ended. */
  readonly ended: Promise<unknown>
  stop(): Promise<void>
}

const START_MS_MAX = 30_000
const IDLE_EXIT_MS = 120_000 // in case this process is killed and cannot stop it

export async function startRunnerProcess(options: {
  stateDir: string
  allowWorkspace: readonly string[]
  isolation: 'bwrap' | 'process' | undefined
  port?: string
}): Promise<RunnerProcess> {
  const tokenFile = join(options.stateDir, 'token')
  const args = ['runner', '--json', '--port', options.port ?? '0', '--state-dir', options.stateDir]
  args.push('--token-file', tokenFile)
  args.push('--idle-exit-ms', String(IDLE_EXIT_MS))
  for (const folder of options.allowWorkspace) args.push('--allow-workspace', folder)
  if (options.isolation === 'process') args.push('--allow-isolation', 'process')
  const child = spawn(process.execPath, [...startArguments(), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-4000)))
  const ended = once(child, 'exit')
  const listening = new Promise<string>((resolve, reject) => {
    const failed = (why: string): void =>
      reject(new Fault('runner_unreachable', { error: `The runner ${why}`, errorRaw: stderr || why }))
    const timer = setTimeout(() => failed(`did not start within ${START_MS_MAX / 1000} s`), START_MS_MAX)
    ended.then(
      () => failed('exited while it was starting'),
      (cause: unknown) => reject(new Fault('runner_unreachable', { error: 'Cannot start the runner', cause })),
    )
    createInterface({ input: child.stdout }).on('line', (line) => {
      const url = listeningUrl(line)
      if (url === undefined) return
      clearTimeout(timer)
      resolve(url)
    })
  })
  const url = await listening
  return {
    url,
    tokenFile,
    kill: () => void child.kill('SIGKILL'),
    ended,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000)
      await ended
      clearTimeout(timer)
    },
  }
}

/** The address in a `listening` line. Undefined for any other line. */
function listeningUrl(line: string): string | undefined {
  if (!line.includes('"listening"')) return undefined
  const value: unknown = JSON.parse(line)
  return typeof value === 'object' && value !== null && 'url' in value && typeof value.url === 'string'
    ? value.url
    : undefined
}
