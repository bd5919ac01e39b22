/**
 * A server that Breakfall runs: a supervised child and the conversation over its stdin and stdout.
 *
 * I1  One spawn per start. The supervisor's ready probe is the handshake, so `ready` means that the tools are listed.
 * I2  The supervisor decides about restarts. A child that breaks the protocol is ended and counts as a crash.
 * I3  A server that dies of one handshake gets the other one at its next start: it may not know the era probe, or only that.
 * I4  Only the supervisor says that a start took too long, and a write that fails is explained by the exit that follows it.
 */
import type { Fault } from '@breakfall/faults'
import { type ChildEvent, type ExitReport, supervise, type Supervised } from '@breakfall/supervisor'
import { within } from '@breakfall/faults/internal'
import type { PriorDiscovery } from '@modelcontextprotocol/client'
import { isTimeout, isWrongAnswer, messageOf } from './call-end.ts'
import { isoNow } from './clock.ts'
import type { McpLimits, McpServerConfig } from './config.ts'
import { Connection } from './connection.ts'
import { environmentFor } from './environment.ts'
import type { Eras } from './eras.ts'
import { FAILED_STARTS_MAX, type LastExit, type Link, LogTail, type McpState, Waiters } from './link.ts'
import { Pipe } from './pipe.ts'
import { endFault, endReason, type RunEnd } from './run-end.ts'
import { StdioTap } from './tap.ts'
import type { ToolList } from './tool.ts'

export type LinkOptions = {
  readonly name: string
  readonly config: McpServerConfig
  readonly eras: Eras
  readonly limits: McpLimits
  /** Folder in which running children and logins are recorded. */
  readonly stateDir: string | undefined
  readonly canAsk: boolean
  readonly onSecrets: (secrets: readonly string[]) => void
  readonly onTools: (list: ToolList | undefined) => void
  readonly onState: () => void
}

export class StdioLink implements Link {
  readonly #options: LinkOptions
  readonly #child: Supervised
  readonly #log = new LogTail()
  readonly #waiters = new Waiters()
  #pipe: Pipe | undefined
  #opening: { readonly pipe: Pipe; readonly done: Promise<boolean> } | undefined
  #connection: Connection | undefined
  #wasReady = false
  readonly #startMs: number
  /** How the last run ended or is ending. */
  #end: RunEnd | undefined
  /** How the current run broke the protocol. */
  #breach: string | undefined
  /** How the run of a connection ended. */
  readonly #ends = new WeakMap<Connection, RunEnd>()
  /** What the next start assumes, if nothing is known about the server. */
  #guess: PriorDiscovery | undefined
  #failedHandshakes = 0
  /** In a row. */
  #failedStarts = 0
  #isStopped = false
  #state: McpState = 'starting'
  #since = isoNow()

  constructor(options: LinkOptions) {
    this.#options = options
    const { name, config, limits, stateDir } = options
    const startMs = config.startMs ?? limits.startMs
    this.#startMs = startMs
    this.#child = supervise({
      name: `MCP server ${name}`,
      command: config.command ?? '',
      args: config.args ?? [],
      env: { ...environmentFor(process.env), ...config.env },
      inheritEnv: false,
      channel: 'none',
      stdoutClosed: 'fail',
      onStdout: (chunk) => this.#pipe?.push(chunk),
      onLine: (line, stream) => {
        if (stream === 'stderr') this.#log.add(line)
      },
      launch: () => {
        this.#pipe = this.#newPipe()
        this.#breach = undefined
        return {}
      },
      ready: { kind: 'probe', probe: () => this.#open(), timeoutMs: startMs, everyMs: 50 },
      limits: {
        startMsMax: startMs,
        startTotalMsMax: startMs,
        stdinMs: 1_000, // a server that reads its stdin exits at once
        termMs: 2_000,
        stableMs: 1, // a server that was ready was fine: its next start need not wait long
        failuresMax: limits.failuresMax,
        stdinBytesMax: limits.inputBytesMax,
      },
      ...(config.cwd === undefined ? {} : { cwd: config.cwd }),
      ...(stateDir === undefined ? {} : { stateDir }),
    })
    this.#child.on((event) => this.#onEvent(event))
  }

  get state(): McpState {
    return this.#state
  }

  get since(): string {
    return this.#since
  }

  get connection(): Connection | undefined {
    return this.#child.serving ? this.#connection : undefined
  }

  get fault(): Fault | null {
    const { state, report } = this.#child
    if (state.status === 'given_up' || state.status === 'failed') return this.#asMcp(state.fault)
    return report === null || report.expected ? null : this.#asMcp()
  }

  get lastExit(): LastExit | null {
    const { report } = this.#child
    if (report === null || this.#end === undefined) return null
    return { code: report.code, signal: report.signal, error: endReason(this.#end, this.#startMs) }
  }

  get log(): readonly string[] {
    return this.#log.lines
  }

  start(): void {
    this.#isStopped = false
    this.#failedStarts = 0
    this.#child.start().catch(() => undefined) // its state and its log say why; the supervisor goes on
  }

  connected(signal: AbortSignal): Promise<Connection> {
    return this.#waiters.until(() => {
      if (this.connection !== undefined) return this.connection
      if (this.#state === 'failed') throw this.fault ?? this.#asMcp()
      return undefined
    }, signal)
  }

  tried(signal: AbortSignal): Promise<true> {
    return this.#waiters.until(
      () => (this.connection !== undefined || this.fault !== null || this.#state === 'failed' ? true : undefined),
      signal,
    )
  }

  started(signal: AbortSignal): Promise<true> {
    return this.#waiters.until(() => {
      const isDown = this.#state === 'failed' || this.#failedStarts >= FAILED_STARTS_MAX
      return this.connection !== undefined || isDown ? true : undefined
    }, signal)
  }

  async broken(connection: Connection, fault: Fault): Promise<Fault> {
    const died = Promise.withResolvers<Fault>()
    const check = (): void => {
      const end = this.#ends.get(connection)
      if (end !== undefined) died.resolve(endFault(this.#options.name, end, this.#startMs))
    }
    const off = this.#child.on(() => queueMicrotask(check))
    check()
    try {
      return isTimeout(fault.cause) ? fault : ((await within(died.promise, EXIT_MS)) ?? fault) // I4
    } finally {
      off()
    }
  }

  async restart(): Promise<void> {
    this.#isStopped = false
    this.#failedStarts = 0
    this.#set('restarting')
    await this.#child.restart()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#connection?.close()
    await this.#child.stop()
  }

  // ---- details ----

  #newPipe(): Pipe {
    return new Pipe({
      write: (line) => this.#child.write(line),
      limits: this.#options.limits,
      garbageLinesMax: this.#options.limits.garbageLinesMax,
      onGarbage: (line) => this.#log.add(`stdout: ${line}`),
      onBroken: (why) => {
        this.#log.add(`ended by Breakfall: ${why}`)
        this.#fail(why)
      },
    })
  }

  /** It broke the protocol (I2). */
  #fail(why: string): void {
    this.#breach ??= why
    this.#child.fail(why)
  }

  /** The ready probe: the same handshake for every probe of one run (I1). */
  #open(): Promise<boolean> {
    const pipe = this.#pipe
    if (pipe === undefined) return Promise.resolve(false)
    if (this.#opening?.pipe !== pipe) this.#opening = { pipe, done: this.#handshake(pipe) }
    return this.#opening.done
  }

  async #handshake(pipe: Pipe): Promise<boolean> {
    const { name, config, eras, canAsk, onTools } = this.#options
    const known = eras.prior(config)
    try {
      const connection = await Connection.open({
        name,
        config,
        tap: new StdioTap(pipe),
        prior: known ?? this.#guess,
        startMs: this.#startMs,
        handshakeMs: NO_LIMIT_MS, // I4
        relistMs: this.#options.limits.relistMs,
        canAsk,
        onTools,
      })
      if (pipe.isOver) {
        await connection.close()
        return false
      }
      this.#connection = connection
      this.#failedHandshakes = 0
      if (connection.verdict !== undefined) eras.remember(config, connection.verdict)
      return true
    } catch (thrown) {
      const isWrong = !pipe.isOver && !pipe.hasRefusedInput && isWrongAnswer(thrown)
      this.#failedHandshakes += 1
      if (known === undefined) this.#guess = this.#guess === undefined ? { kind: 'legacy' } : undefined // I3
      else if (isWrong || this.#failedHandshakes > 1) eras.forget(config)
      const why = messageOf(thrown)
      if (isWrong) this.#fail(`its handshake failed: ${why}`)
      else if (!pipe.isOver && (await within(pipe.over, EXIT_MS)) === undefined) this.#child.fail(why) // I4
      return false
    }
  }

  #onEvent(event: ChildEvent): void {
    if (event.type === 'exit' || event.type === 'ending') {
      this.#end = { report: event.report, breach: this.#breach }
      if (this.#connection !== undefined) this.#ends.set(this.#connection, this.#end)
      this.#pipe?.end()
      void this.#connection?.close()
      this.#connection = undefined
    }
    if (event.type === 'exit' && !event.report.expected) this.#failedStarts += failedStarts(event.report)
    if (event.type !== 'state') return
    switch (event.state.status) {
      case 'ready':
      case 'busy':
        this.#wasReady = true
        this.#failedStarts = 0
        this.#set('ready')
        break
      case 'given_up':
        this.#set('failed')
        break
      case 'starting':
        this.#set(this.#wasReady || this.#child.report !== null ? 'restarting' : 'starting')
        break
      case 'failed':
      case 'backoff':
        this.#set('restarting')
        break
      case 'stopping':
      case 'stopped':
        if (this.#isStopped) this.#set('failed')
    }
    this.#waiters.wake()
  }

  #set(state: McpState): void {
    if (this.#state === state) return
    this.#state = state
    this.#since = isoNow()
    this.#options.onState()
  }

  /** The supervisor's fault, as one of this server. */
  #asMcp(fault?: Fault): Fault {
    return endFault(this.#options.name, this.#end, this.#startMs, fault)
  }
}

/** A server that stayed silent was given all the time that a start may take: once is enough. */
function failedStarts({ phase, endedBy }: ExitReport): number {
  if (endedBy === 'start_limit') return FAILED_STARTS_MAX
  return phase === 'spawn' || phase === 'starting' ? 1 : 0
}

const EXIT_MS = 2_000 // from a failed write or a closed pipe to the report of the exit
const NO_LIMIT_MS = 2 ** 31 - 1
