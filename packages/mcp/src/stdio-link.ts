/**
 * A server that Breakfall runs: a supervised child and the conversation over its stdin and stdout.
 *
 * I1  One spawn per start. The supervisor's ready probe is the handshake, so `ready` means that the tools are listed.
 * I2  The supervisor decides about restarts. A child that breaks the protocol is ended and counts as a crash.
 * I3  A server that dies of the era probe is one of 2025: its next start uses the old handshake.
 */
import { Fault, isFault } from '@breakfall/faults'
import { type ChildEvent, type ExitReport, supervise, type Supervised, within } from '@breakfall/supervisor'
import { isoNow } from './clock.ts'
import { MCP_LIMITS, type McpLimits, type McpServerConfig } from './config.ts'
import { Connection } from './connection.ts'
import type { Eras } from './eras.ts'
import { type LastExit, type Link, LogTail, type McpState, Waiters } from './link.ts'
import { Pipe } from './pipe.ts'
import { StdioTap } from './tap.ts'
import type { ToolList } from './tool.ts'

export type LinkOptions = {
  readonly name: string
  readonly config: McpServerConfig
  readonly eras: Eras
  readonly limits: McpLimits
  /** Folder in which running children are recorded. */
  readonly stateDir: string | undefined
  readonly onTools: (list: ToolList) => void
  readonly onState: () => void
}

/** Of a report, what explains the end. */
type EndReport = Pick<ExitReport, 'endedBy' | 'endedDetail' | 'diagnoses' | 'signal' | 'code' | 'kind'>

export class StdioLink implements Link {
  readonly #options: LinkOptions
  readonly #child: Supervised
  readonly #log = new LogTail()
  readonly #waiters = new Waiters()
  #pipe: Pipe | undefined
  #opening: { readonly pipe: Pipe; readonly done: Promise<boolean> } | undefined
  #connection: Connection | undefined
  #wasReady = false
  /** How the last run ended or is ending. */
  #report: EndReport | null = null
  /** The current connection has ended, for the reason in `#report`. */
  #isGone = true
  #isStopped = false
  #state: McpState = 'starting'
  #since = isoNow()

  constructor(options: LinkOptions) {
    this.#options = options
    const { name, config, limits, stateDir } = options
    const startMs = config.startMs ?? limits.startMs
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
        return {}
      },
      ready: { kind: 'probe', probe: () => this.#open(startMs), timeoutMs: startMs, everyMs: 50 },
      limits: {
        startMsMax: startMs,
        startTotalMsMax: startMs,
        termMs: 2_000,
        stableMs: 1, // a server that was ready was fine: its next start need not wait long
        failuresMax: limits.failuresMax,
        hungMs: (config.callMs ?? limits.callMs) * MCP_LIMITS.callMsMaxFactor * 2, // calls have their own limits
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
    return report === null || report.expected ? null : this.#asMcp(undefined)
  }

  get lastExit(): LastExit | null {
    const { report } = this.#child
    if (report === null) return null
    return { code: report.code, signal: report.signal, error: report.diagnoses[0]?.message ?? this.#reasonOf() }
  }

  get log(): readonly string[] {
    return this.#log.lines
  }

  start(): void {
    this.#isStopped = false
    this.#child.start().catch(() => undefined) // its state and its log say why; the supervisor goes on
  }

  connected(signal: AbortSignal): Promise<Connection> {
    return this.#waiters.until(() => {
      if (this.connection !== undefined) return this.connection
      if (this.#state === 'failed') throw this.fault ?? this.#asMcp(undefined)
      return undefined
    }, signal)
  }

  async broken(_connection: Connection, fault: Fault): Promise<Fault> {
    const died = Promise.withResolvers<Fault>()
    const off = this.#child.on((event) => {
      if (event.type === 'exit' || event.type === 'ending') queueMicrotask(() => died.resolve(this.#asMcp(undefined)))
    })
    try {
      if (this.#isGone) return this.#asMcp(undefined)
      return (await within(died.promise, EXIT_MS)) ?? fault
    } finally {
      off()
    }
  }

  using(key: string): Disposable {
    const request = this.#child.request({ id: key })
    request.sent()
    return request
  }

  async restart(): Promise<void> {
    this.#isStopped = false
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
      messageBytesMax: this.#options.limits.messageBytesMax,
      garbageLinesMax: this.#options.limits.garbageLinesMax,
      onGarbage: (line) => this.#log.add(`stdout: ${line}`),
      onBroken: (why) => {
        this.#log.add(`ended by Breakfall: ${why}`)
        this.#child.fail(why) // I2
      },
    })
  }

  /** The ready probe: the same handshake for every probe of one run (I1). */
  #open(startMs: number): Promise<boolean> {
    const pipe = this.#pipe
    if (pipe === undefined) return Promise.resolve(false)
    if (this.#opening?.pipe !== pipe) this.#opening = { pipe, done: this.#handshake(pipe, startMs) }
    return this.#opening.done
  }

  async #handshake(pipe: Pipe, startMs: number): Promise<boolean> {
    const { name, config, eras, onTools } = this.#options
    const prior = eras.prior(config)
    try {
      const connection = await Connection.open({
        name,
        config,
        tap: new StdioTap(pipe),
        prior,
        startMs,
        signal: AbortSignal.timeout(startMs),
        onTools,
      })
      if (this.#pipe !== pipe) {
        await connection.close()
        return false
      }
      this.#connection = connection
      this.#isGone = false
      if (connection.verdict !== undefined) eras.remember(config, connection.verdict)
      return true
    } catch (thrown) {
      const isGone = this.#pipe !== pipe || this.#child.pid === null
      if (prior === undefined) eras.remember(config, { kind: 'legacy' }) // I3
      else if (!isGone) eras.forget(config)
      const why = thrown instanceof Error ? thrown.message.slice(0, 300) : String(thrown)
      if (!isGone) this.#child.fail(`the handshake failed: ${why}`) // I2
      return false
    }
  }

  #onEvent(event: ChildEvent): void {
    if (event.type === 'exit' || event.type === 'ending') {
      this.#report = event.report
      this.#isGone = true
      void this.#pipe?.close()
      void this.#connection?.close()
      this.#connection = undefined
    }
    if (event.type !== 'state') return
    switch (event.state.status) {
      case 'ready':
      case 'busy':
        this.#wasReady = true
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
  #asMcp(fault: Fault | undefined): Fault {
    const { name } = this.#options
    const report = this.#report
    const isBroken = report?.endedBy === 'unhealthy' && BROKEN.test(report.endedDetail ?? '')
    return new Fault(isBroken ? 'mcp_protocol_error' : 'mcp_server_failed', {
      facts: { name, detail: this.#reasonOf() },
      diagnostics: fault?.report.diagnostics ?? [],
      ...(isFault(fault) ? { cause: fault, errorRaw: fault.errorRaw } : {}),
    })
  }

  #reasonOf(): string {
    const report = this.#report
    if (report === null) return 'it has not started'
    const [cause] = report.diagnoses
    if (report.endedDetail !== null) return report.endedDetail
    if (cause !== undefined) return cause.message
    if (report.signal !== null) return `it was ended by ${report.signal}`
    return report.code === null ? report.kind : `it exited with code ${report.code}`
  }
}

const EXIT_MS = 2_000 // from a closed pipe to the report of the exit
const BROKEN = /on stdout|handshake/

/** The environment of this process may hold keys. A server gets what a program needs to run, and what its config says. */
function environmentFor(env: NodeJS.ProcessEnv): Record<string, string> {
  const out: Record<string, string> = {}
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && (INHERITED.has(name) || /^(?:LC_|XDG_)/.test(name))) out[name] = value
  }
  return out
}

const INHERITED: ReadonlySet<string> = new Set([
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'TERM',
  'LANG',
  'TZ',
  'TMPDIR',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
])
