/** A program under test: started as a child process, read line by line, ended by its process id. */
import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type Json, jsonIn } from './json.ts'

export type Ended = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly lines: readonly string[]
  readonly json: readonly Record<string, unknown>[]
  readonly stderr: string
}

export type ProgramOptions = {
  readonly cwd?: string
  /** The whole environment; without it the child inherits ours. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Standard input: none, the given text, or (null) a pipe that stays open. */
  readonly input?: string | Buffer | null
  readonly stderr?: 'pipe' | 'inherit'
  /** Makes the child the leader of a new process group. */
  readonly ownGroup?: boolean
  readonly uid?: number
  readonly gid?: number
  /** File descriptors of ours that the child inherits, by their number in the child (3 and up). */
  readonly inherits?: Readonly<Record<number, number>>
}

export class Program implements AsyncDisposable {
  readonly child: ChildProcess
  readonly lines: string[] = []
  readonly ended: Promise<Ended>
  #stderr = ''
  #isOver = false
  readonly #watchers = new Set<() => void>()

  constructor(command: string, args: readonly string[], options: ProgramOptions = {}) {
    const { cwd, env, input, stderr = 'pipe', ownGroup = false, uid, gid, inherits = {} } = options
    const stdio: StdioOptions = [input === undefined ? 'ignore' : 'pipe', 'pipe', stderr]
    for (const [at, fd] of Object.entries(inherits)) stdio[Number(at)] = fd
    this.child = spawn(command, args, {
      stdio: Array.from(stdio, (entry) => entry ?? 'ignore'),
      detached: ownGroup,
      ...(cwd !== undefined && { cwd }),
      ...(env !== undefined && { env }),
      ...(uid !== undefined && { uid }),
      ...(gid !== undefined && { gid }),
    })
    this.child.stdin?.on('error', () => undefined) // it may exit without reading everything
    if (typeof input === 'string' || Buffer.isBuffer(input)) this.child.stdin?.end(input)
    this.child.stderr?.on('data', (bytes: Buffer) => (this.#stderr += bytes.toString()))
    if (this.child.stdout !== null)
      createInterface({ input: this.child.stdout }).on('line', (line) => {
        this.lines.push(line)
        this.#changed()
      })
    this.ended = this.#end()
  }

  get pid(): number {
    return this.child.pid ?? 0
  }
  /** Everything written to standard error so far. */
  get stderr(): string {
    return this.#stderr
  }
  get isOver(): boolean {
    return this.#isOver
  }

  /** The first line that matches, once it is there; rejects if the program ends without it. */
  async line(matches: (line: string) => boolean): Promise<string> {
    for (;;) {
      const found = this.lines.find(matches)
      if (found !== undefined) return found
      if (this.#isOver) throw new Error(`it ended before that line came\n${this.lines.join('\n')}\n${this.#stderr}`)
      await new Promise<void>((resolve) => this.#watchers.add(resolve))
    }
  }

  /** The first JSON line that matches. */
  async seen(matches: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    const line = await this.line((text) => {
      const value = objectIn(text)
      return value !== undefined && matches(value)
    })
    return objectIn(line) ?? {}
  }

  /** The `{"event":"listening"}` line of a server. */
  listening(): Promise<Json> {
    return this.seen((line) => line['event'] === 'listening')
  }

  /** Sends the signal to this process, by its id, and waits for its end. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<Ended> {
    if (!this.#isOver) this.child.kill(signal)
    return this.ended
  }

  /** SIGTERM, then SIGKILL for a program that does not react. */
  async stop(graceMs = 10_000): Promise<Ended> {
    const timer = setTimeout(() => this.child.kill('SIGKILL'), graceMs)
    const ended = await this.kill('SIGTERM')
    clearTimeout(timer)
    return ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #end(): Promise<Ended> {
    const [code, signal] = (await once(this.child, 'close')) as [number | null, NodeJS.Signals | null]
    this.#isOver = true
    this.#changed()
    const json = this.lines.map(objectIn).filter((value) => value !== undefined)
    return { code, signal, lines: this.lines, json, stderr: this.#stderr }
  }

  #changed(): void {
    const waiting = [...this.#watchers]
    this.#watchers.clear()
    for (const look of waiting) look()
  }
}

/** A TypeScript or JavaScript program under this Node. */
export const nodeProgram = (file: string, args: readonly string[], options?: ProgramOptions): Program =>
  new Program(process.execPath, [file, ...args], options)

function objectIn(line: string): Record<string, unknown> | undefined {
  const value: unknown = jsonIn(line)
  return typeof value === 'object' && value !== null ? { ...value } : undefined
}
