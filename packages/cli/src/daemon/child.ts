/**
 * A daemon of this run's own, as a child process: a crash of it does not take the run along, and it is started again on the
 * same state folder, where the turn goes on. It ends by itself when its work is done and nobody needs it any more: the
 * closed standard input tells it that we are gone.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { describeCause, Fault, faultFrom, isFaultReport } from '@breakfall/faults'
import type { DaemonAddress } from './client.ts'
import { readToken } from './find.ts'
import { startArguments } from '../process/self.ts'

export type OwnDaemonOptions = {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly onRestart: () => void
}

const START_MS_MAX = 30_000
const STOP_MS_MAX = 8_000
const RESTARTS_MAX = 20 // a daemon that is killed again and again ends its turn as a crash loop long before

export class OwnDaemon {
  readonly #options: OwnDaemonOptions
  #child: ChildProcess | undefined
  #listening: DaemonAddress | undefined
  #starting: Promise<DaemonAddress> | undefined
  #stays = Promise.withResolvers<void>()
  #restarts = 0

  constructor(options: OwnDaemonOptions) {
    this.#options = options
  }

  /** Where it is, while it runs. */
  get running(): DaemonAddress | undefined {
    return this.#child !== undefined && isAlive(this.#child) ? this.#listening : undefined
  }

  /** Where it is; started, or started again, where it is not running. Once, however many ask. */
  address(): Promise<DaemonAddress> {
    const { running } = this
    if (running !== undefined) return Promise.resolve(running)
    this.#starting ??= this.#startAgain().finally(() => (this.#starting = undefined))
    return this.#starting
  }

  /** Lets it go: it ends when its turns are over. Waits for that, unless it stays for another run, and not for ever. */
  async release(): Promise<void> {
    const child = this.#child
    if (child === undefined || !isAlive(child)) return
    const ended = once(child, 'exit')
    if (this.#listening === undefined) child.kill('SIGTERM') // it serves nobody yet
    child.stdin?.end()
    const waiting = new AbortController()
    const tooLong = sleep(STOP_MS_MAX, undefined, { signal: waiting.signal, ref: false })
    await Promise.race([ended, this.#stays.promise, tooLong.catch(() => undefined /* one of the others came first */)])
    waiting.abort()
    child.unref()
    for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as Socket | null)?.unref()
  }

  async #startAgain(): Promise<DaemonAddress> {
    if (this.#listening !== undefined) {
      if (++this.#restarts > RESTARTS_MAX)
        throw new Fault('crash_loop', { facts: { name: 'the daemon of this run', limit: `${RESTARTS_MAX} restarts` } })
      this.#options.onRestart()
      this.#listening = undefined
    }
    this.#listening = await this.#start()
    return this.#listening
  }

  async #start(): Promise<DaemonAddress> {
    const { args, env, cwd } = this.#options
    const child = spawn(
      process.execPath,
      [...startArguments(), 'up', '--json', '--port', '0', '--until-idle', ...args],
      {
        cwd,
        env: { ...env },
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true, // Ctrl-C in the terminal is for the run, which cancels in order
      },
    )
    this.#child = child
    child.stdin.on('error', () => undefined) // it has died: its exit says so
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4000)))
    const lines = createInterface({ input: child.stdout })
    return new Promise<DaemonAddress>((resolve, reject) => {
      const timer = setTimeout(() => failed(late(said)), START_MS_MAX)
      const failed = (why: unknown): void => {
        clearTimeout(timer)
        child.kill('SIGKILL') // whatever is left of it: nobody will talk to it
        reject(why)
      }
      let fault: Fault | undefined
      child.once('close', (code, signal) => failed(fault ?? endedAtOnce(said, code, signal))) // its last line has been read by then
      child.once('error', (error) => failed(notStarted(error)))
      lines.on('line', (line) => {
        const { event, url, tokenFile, ...rest } = parsed(line)
        if (event === 'result' && isFaultReport(rest['fault'])) failed((fault = faultFrom(rest['fault'])))
        if (event === 'staying') this.#stays.resolve()
        if (event !== 'listening' || typeof url !== 'string' || typeof tokenFile !== 'string') return
        clearTimeout(timer)
        try {
          resolve({ url, token: readToken(tokenFile) })
        } catch (error) {
          failed(error)
        }
      })
    })
  }
}

// ---- details ----

const isAlive = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null

function parsed(line: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(line)) as Readonly<Record<string, unknown>>
  } catch {
    return {} // not a JSON line: nothing that we wait for
  }
}

const late = (said: string): Fault =>
  new Fault('daemon_unreachable', { error: 'the daemon of this run did not start in time', errorRaw: said })

const notStarted = (cause: Error): Fault =>
  new Fault('daemon_unreachable', { error: 'the daemon of this run could not be started', cause })

/** Without a result of its own: killed, or not even begun. */
const endedAtOnce = (said: string, code: number | null, signal: string | null): Fault =>
  new Fault('daemon_unreachable', {
    error: `the daemon of this run ended at once (${signal ?? `code ${code}`})`,
    errorRaw: describeCause(said.trim() || 'it said nothing'),
  })
