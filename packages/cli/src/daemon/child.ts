/**
 * A daemon as a child process of a run. If it crashes the run survives, and starts it again on the same state folder, where
 * the turn continues. It ends when its work is done and the run has closed its standard input.
 *
 * I1  A run that is killed, or leaves its turn, says nothing. Then the daemon also stays for parked turns: only it has
 *     their keys, and the calls that wait in them.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { DaemonAddress } from '@breakfall/client'
import { describeCause, Fault, faultFrom, isFaultReport } from '@breakfall/faults'
import { within } from '@breakfall/faults/internal'
import type { Environment } from '@breakfall/supervisor/platform'
import { startArguments } from '../process/self.ts'
import { readToken } from './find.ts'

export type ChildDaemonOptions = {
  readonly args: readonly string[]
  readonly env: Environment
  readonly cwd: string
  readonly onRestart: () => void
  /** Whenever it has started. */
  readonly onStart?: ((pid: number) => void) | undefined
}

/** What a run says to its daemon that does not leave a turn to it. */
export const RUN_IS_OVER = 'over\n'

const START_MS_MAX = 30_000
const STOP_MS_MAX = 8_000
const RESTARTS_MAX = 20 // a turn that kills its daemon ends as a crash loop long before

export class ChildDaemon {
  readonly #options: ChildDaemonOptions
  #child: ChildProcess | undefined
  #address: DaemonAddress | undefined
  #starting: Promise<DaemonAddress> | undefined
  /** It stays for another run. */
  #stays = Promise.withResolvers<void>()
  #restarts = 0

  constructor(options: ChildDaemonOptions) {
    this.#options = options
  }

  /** Its address, while it runs. */
  get running(): DaemonAddress | undefined {
    return this.#child !== undefined && isAlive(this.#child) ? this.#address : undefined
  }

  /** Its address. Starts it, or restarts it, if it is not running; callers at the same time share one start. */
  address(): Promise<DaemonAddress> {
    const { running } = this
    if (running !== undefined) return Promise.resolve(running)
    this.#starting ??= this.#startAgain().finally(() => (this.#starting = undefined))
    return this.#starting
  }

  /** Tells it that the run is over, and waits for its end, up to a limit, unless it stays for another run or for the turn (`leavesTurn`). */
  async release(leavesTurn: boolean): Promise<void> {
    const child = this.#child
    if (child === undefined || !isAlive(child)) return
    const ended = once(child, 'exit')
    if (this.#address === undefined) child.kill('SIGTERM') // it is not in use yet
    child.stdin?.end(leavesTurn ? '' : RUN_IS_OVER) // I1
    if (!leavesTurn) await within(Promise.race([ended, this.#stays.promise]), STOP_MS_MAX)
    child.unref()
    for (const pipe of [child.stdin, child.stdout, child.stderr]) if (pipe instanceof Socket) pipe.unref()
  }

  async #startAgain(): Promise<DaemonAddress> {
    if (this.#address !== undefined) {
      if (++this.#restarts > RESTARTS_MAX)
        throw new Fault('crash_loop', {
          facts: { name: "the run's daemon", limit: `${RESTARTS_MAX} restarts` },
          next: 'never',
        })
      this.#options.onRestart()
      this.#address = undefined
    }
    this.#address = await this.#start()
    return this.#address
  }

  async #start(): Promise<DaemonAddress> {
    const { args, env, cwd, onStart } = this.#options
    const child = spawn(
      process.execPath,
      [...startArguments(), 'up', '--json', '--port', '0', '--until-idle', ...args],
      {
        cwd,
        env: { ...env },
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true, // Ctrl-C in the terminal is for the run, which cancels its turn first
      },
    )
    this.#child = child
    child.stdin.on('error', () => undefined) // it has died, which its exit reports
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-4000)))
    const lines = createInterface({ input: child.stdout })
    return new Promise<DaemonAddress>((resolve, reject) => {
      const timer = setTimeout(() => fail(tooSlow(stderr)), START_MS_MAX)
      const fail = (reason: unknown): void => {
        clearTimeout(timer)
        child.kill('SIGKILL') // no run will use it
        reject(reason)
      }
      let fault: Fault | undefined
      child.once('close', (code, signal) => fail(fault ?? exitedAtOnce(stderr, code, signal))) // after its last line was read
      child.once('error', (error) => fail(cannotStart(error)))
      lines.on('line', (line) => {
        const { event, url, tokenFile, fault: reported } = fieldsOf(line)
        if (event === 'result' && isFaultReport(reported)) fail((fault = faultFrom(reported)))
        if (event === 'staying') this.#stays.resolve()
        if (event !== 'listening' || typeof url !== 'string' || typeof tokenFile !== 'string') return
        clearTimeout(timer)
        if (child.pid !== undefined) onStart?.(child.pid)
        try {
          resolve({ url, token: readToken(tokenFile) })
        } catch (error) {
          fail(error)
        }
      })
    })
  }
}

// ---- details ----

const isAlive = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null

function fieldsOf(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {} // not JSON: not a line that matters here
  }
}

const tooSlow = (stderr: string): Fault =>
  new Fault('daemon_unreachable', {
    error: `The run's daemon did not start within ${START_MS_MAX / 1000} s.`,
    errorRaw: stderr,
  })

const cannotStart = (cause: Error): Fault =>
  new Fault('daemon_unreachable', { error: "Cannot start the run's daemon.", cause })

/** It exited without a result line: it was killed, or could not even begin. */
const exitedAtOnce = (stderr: string, code: number | null, signal: string | null): Fault =>
  new Fault('daemon_unreachable', {
    error: `The run's daemon exited while it was starting (${signal ?? `code ${code}`}).`,
    errorRaw: describeCause(stderr.trim() || 'it printed nothing'),
  })
