/** A runner for the length of a rehearsal or a demo. Killed, it comes back at the same port, and its commands survive in their keepers. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '@breakfall/faults'
import { createRunnerClient } from '@breakfall/runner/client'
import { supervise, type Supervised } from '@breakfall/supervisor'
import { sendSignal } from '@breakfall/supervisor/platform'
import { parseTokens } from '@breakfall/wire/node'
import { startArguments } from '../process/self.ts'

export type DemoRunner = {
  readonly url: string
  readonly tokenFile: string
  /** SIGKILL. */
  kill(): void
  /** Ends every command, then the runner. */
  stop(): Promise<void>
}

const START_MS_MAX = 30_000

export async function startDemoRunner(options: {
  stateDir: string
  allowWorkspace: readonly string[]
  isolation: 'bwrap' | 'process' | undefined
}): Promise<DemoRunner> {
  const tokenFile = join(options.stateDir, 'token')
  const args = [...startArguments(), 'runner', '--json', '--state-dir', options.stateDir, '--token-file', tokenFile]
  for (const folder of options.allowWorkspace) args.push('--allow-workspace', folder)
  if (options.isolation === 'process') args.push('--allow-isolation', 'process')
  let url = ''
  const runner = supervise({
    name: 'the runner',
    command: process.execPath,
    launch: () => ({ args: [...args, '--port', url === '' ? '0' : new URL(url).port] }),
    stdin: 'ignore',
    channel: 'none',
    ready: { kind: 'line', pattern: LISTENING, stream: 'stdout' },
    mayRestart: () => url !== '',
    limits: { startMsMax: START_MS_MAX, backoffMs: 200, stableMs: 1_000, failuresMax: 1_000 },
    onLine: (line) => (url ||= LISTENING.exec(line)?.[1] ?? ''),
  })
  try {
    await runner.start()
  } catch (cause) {
    await runner.stop()
    throw new Fault('runner_unreachable', { error: 'The runner exited while it was starting', cause })
  }
  return {
    url,
    tokenFile,
    kill: () => {
      if (runner.pid !== null) sendSignal(runner.pid, 'SIGKILL')
    },
    stop: () => endAll(runner, url, tokenFile),
  }
}

// ---- details ----

const LISTENING = /^\{"event":"listening".*?"url":"([^"]+)"/

async function endAll(runner: Supervised, url: string, tokenFile: string): Promise<void> {
  const [grant] = parseTokens(readFileSync(tokenFile, 'utf8'))
  const client = createRunnerClient({ url, token: grant?.token ?? '' })
  try {
    for (const { id } of await client.listBoxes()) await client.removeBox(id)
  } catch {
    // It was killed a moment ago: the scratch folder goes, and what still runs ends with its output.
  } finally {
    await client.close()
  }
  await runner.stop()
}
