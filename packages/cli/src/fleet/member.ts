/** A daemon or a runner of a local fleet: a child process that can be killed, frozen and started again in its folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Fault } from '@breakfall/faults'
import { startArguments } from '../process/self.ts'

const START_MS_MAX = 60_000
const STOP_MS_MAX = 10_000

export type MemberOptions = {
  /** The event that says that it has started. */
  readonly startsWith: 'listening' | 'joined'
  readonly onListening?: (url: string) => void
}

export class Member {
  readonly name: string
  readonly #args: () => readonly string[]
  readonly #env: Readonly<Record<string, string | undefined>>
  readonly #how: MemberOptions
  #child: ChildProcess | undefined
  #url: string | undefined
  #isFrozen = false
  #isStopped = false

  /** `args` is asked at each start. */
  constructor(
    name: string,
    args: () => readonly string[],
    env: Readonly<Record<string, string | undefined>>,
    how: MemberOptions = { startsWith: 'listening' },
  ) {
    this.#how = how
    this.name = name
    this.#args = args
    this.#env = env
  }

  get pid(): number | null {
    return this.isRunning ? (this.#child?.pid ?? null) : null
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  get isFrozen(): boolean {
    return this.#isFrozen && this.isRunning
  }

  /** The URL it listens on, while it runs. */
  get url(): string | undefined {
    return this.isRunning ? this.#url : undefined
  }

  /** Starts it, unless it runs. */
  async start(): Promise<void> {
    if (this.isRunning) return
    this.#isFrozen = false
    this.#url = undefined
    const child = spawn(process.execPath, [...startArguments(), ...this.#args()], {
      stdio: ['pipe', 'pipe', 'pipe'], // it ends when its standard input does: with us
      detached: true, // Ctrl-C at the terminal is for us: the turns end first
      env: this.#env,
    })
    this.#child = child
    child.stdin.on('error', () => undefined) // it was killed
    let said = ''
    child.stderr.on('data', (bytes: Buffer) => (said = (said + bytes.toString()).slice(-4_000)))
    await new Promise<void>((resolve, reject) => {
      const failed = (): void => {
        clearTimeout(timer)
        reject(new Fault('process_failed', { error: `${this.name} did not start.`, errorRaw: said }))
      }
      const timer = setTimeout(failed, START_MS_MAX)
      child.once('error', failed)
      child.once('exit', failed)
      createInterface({ input: child.stdout }).on('line', (line) => {
        const [, event, url] = /^\{"event":"(listening|joined)"(?:.*?"url":"([^"]+)")?/.exec(line) ?? []
        if (event === 'listening' && url !== undefined) {
          this.#url = url
          this.#how.onListening?.(url)
        }
        if (event !== this.#how.startsWith) return
        clearTimeout(timer)
        resolve()
      })
    })
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** As an operator stops it: it hands its turns over. */
  async stop(): Promise<void> {
    this.thaw()
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), STOP_MS_MAX)
    await this.#end('SIGTERM')
    clearTimeout(timer)
  }

  /** Two calls are a pair, whatever happens in between: the second one never freezes what was gone at the first. */
  stopOrContinue(): void {
    this.#isStopped = !this.#isStopped
    if (this.#isStopped) this.freeze()
    else this.thaw()
  }

  freeze(): void {
    if (!this.isRunning) return
    this.#isFrozen = true
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#isFrozen = false
    if (this.isRunning) this.#child?.kill('SIGCONT')
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (child === undefined || !this.isRunning) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }
}
