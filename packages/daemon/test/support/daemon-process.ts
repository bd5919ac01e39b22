/** A daemon in a separate process, to be killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { DaemonOptions } from '../../src/index.ts'
import { Api } from './api.ts'

const PROGRAM = fileURLToPath(new URL('../programs/dies-at-failpoint.ts', import.meta.url))

export type DaemonProcess = {
  readonly api: Api
  readonly pid: number
  readonly recovered: number
  /** Dies when it passes a point for the Nth time: `after:tool-call#2`. */
  arm(point: string): Promise<void>
  counts(): Promise<Record<string, number>>
  kill(signal: NodeJS.Signals): void
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>
}

/** Runs a daemon until it dies at a point that it passes while it starts or recovers turns. */
export async function crashDaemon(options: Partial<DaemonOptions>, crashAt: string): Promise<number | string> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify({ ...options, crashAt })], {
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  return signal ?? code ?? 'nothing'
}

export async function spawnDaemon(options: Partial<DaemonOptions>): Promise<DaemonProcess> {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ended = once(child, 'exit').then(([code, signal]) => (signal ?? code) as number | string)
  const said = async <T>(): Promise<T> => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error('the daemon ended before it said anything')
    return JSON.parse(String(value)) as T
  }
  const { url, token, recovered } = await said<{ url: string; token: string; recovered: number }>()
  child.stdin.on('error', () => undefined) // it was killed while we wrote
  return {
    api: new Api({ url, token }),
    pid: child.pid ?? 0,
    recovered,
    ended,
    arm: async (point) => {
      child.stdin.write(`arm ${point}\n`)
      await said()
    },
    counts: async () => {
      child.stdin.write('count\n')
      return (await said<{ counts: Record<string, number> }>()).counts
    },
    kill: (signal) => void child.kill(signal),
  }
}
