/**
 * A server at a URL: connects, and connects again when a call shows that the connection is gone.
 *
 * I1  `decide` says when to connect again. Rejected credentials wait for a person.
 * I2  A lost session is replaced by a new one; nothing that was sent is sent again here.
 */
import { classify, decide, Fault, isFault, POLICY_DEFAULTS, sleep } from '@breakfall/faults'
import {
  InsufficientScopeError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { boundedFetch } from './bounded-fetch.ts'
import { messageOf } from './call-end.ts'
import { dice, isoNow, systemNow } from './clock.ts'
import { Connection } from './connection.ts'
import { Bearer } from './login/bearer.ts'
import { readLogin, writeLogin } from './login/stored-login.ts'
import { FAILED_STARTS_MAX, type LastExit, type Link, LogTail, type McpState, Waiters } from './link.ts'
import type { LinkOptions } from './stdio-link.ts'
import { Tap } from './tap.ts'

export class HttpLink implements Link {
  readonly lastExit: LastExit | null = null
  readonly #options: LinkOptions
  readonly #waiters = new Waiters()
  readonly #log = new LogTail()
  #connection: Connection | undefined
  #state: McpState = 'starting'
  #since = isoNow()
  #fault: Fault | null = null
  /** In a row, since the last connection. */
  #failedStarts = 0
  #life = new AbortController()
  #loop: Promise<void> | undefined

  constructor(options: LinkOptions) {
    this.#options = options
  }

  get state(): McpState {
    return this.#state
  }

  get since(): string {
    return this.#since
  }

  get connection(): Connection | undefined {
    return this.#connection
  }

  get fault(): Fault | null {
    return this.#fault
  }

  get log(): readonly string[] {
    return this.#log.lines
  }

  start(): void {
    this.#failedStarts = 0
    this.#life = new AbortController()
    this.#connect()
  }

  connected(signal: AbortSignal): Promise<Connection> {
    return this.#waiters.until(() => {
      if (this.#connection !== undefined) return this.#connection
      if (this.#state === 'failed') throw this.#fault ?? new Fault('mcp_unreachable', { facts: this.#callee })
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
      return this.#connection !== undefined || isDown ? true : undefined
    }, signal)
  }

  async broken(connection: Connection, fault: Fault): Promise<Fault> {
    if (this.#connection !== connection || this.#lacksScope(fault)) return fault
    this.#connection = undefined
    await connection.close()
    this.#fault = fault
    if (fault.category === 'mcp_auth_failed') this.#set('failed')
    else {
      this.#set('restarting')
      this.#connect()
    }
    return fault
  }

  async restart(): Promise<void> {
    await this.stop()
    this.#set('restarting')
    this.start()
    await this.connected(AbortSignal.timeout(this.#startMs))
  }

  async stop(): Promise<void> {
    this.#life.abort()
    const connection = this.#connection
    this.#connection = undefined
    this.#set('failed')
    await connection?.close()
    await this.#loop
  }

  // ---- details ----

  get #startMs(): number {
    return this.#options.config.startMs ?? this.#options.limits.startMs
  }

  get #callee(): { readonly name: string; readonly address: string } {
    const { name, config } = this.#options
    const url = config.url ?? ''
    return { name, address: URL.canParse(url) ? new URL(url).host : url }
  }

  #connect(): void {
    this.#loop ??= this.#connecting(this.#life.signal).finally(() => {
      this.#loop = undefined
    })
  }

  async #connecting(signal: AbortSignal): Promise<void> {
    const startedAt = systemNow()
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      try {
        const connection = await this.#open(signal)
        if (signal.aborted) return await connection.close()
        this.#connection = connection
        this.#fault = null
        this.#failedStarts = 0
        return this.#set('ready')
      } catch (thrown) {
        if (signal.aborted) return
        this.#fault = this.#faultOf(thrown)
        this.#failedStarts += 1
        this.#log.add(this.#fault.error)
        const situation = { at: 'call', attempt, awayMs: systemNow() - startedAt, dice: dice() } as const
        const policy = {
          ...POLICY_DEFAULTS,
          attemptsMax: Number.POSITIVE_INFINITY,
          waitMsMax: Number.POSITIVE_INFINITY,
        }
        const decision = decide(this.#fault.report, situation, policy, systemNow()) // I1
        if (decision.action !== 'retry') return this.#set('failed')
        if (this.#state !== 'starting') this.#set('restarting')
        this.#waiters.wake()
        await this.#pause(decision.delayMs, signal)
      }
    }
  }

  async #open(signal: AbortSignal): Promise<Connection> {
    const { name, config, eras, limits, canAsk, onTools } = this.#options
    const transport = new StreamableHTTPClientTransport(new URL(config.url ?? ''), {
      requestInit: { headers: { ...config.headers } },
      ...this.#authProvider(),
      fetch: boundedFetch(limits),
      reconnectionOptions: {
        initialReconnectionDelay: 250,
        maxReconnectionDelay: 2_000,
        reconnectionDelayGrowFactor: 2,
        maxRetries: 2, // with event ids, a cut response is read on; then the call ends
      },
    })
    const prior = eras.prior(config)
    try {
      const connection = await Connection.open({
        name,
        config,
        prior,
        canAsk,
        onTools,
        tap: new Tap(transport),
        startMs: this.#startMs,
        relistMs: limits.relistMs,
        signal: AbortSignal.any([signal, AbortSignal.timeout(this.#startMs)]),
        address: this.#callee.address,
      })
      if (connection.verdict !== undefined) eras.remember(config, connection.verdict)
      return connection
    } catch (thrown) {
      await transport.close()
      if (prior !== undefined) eras.forget(config)
      throw thrown
    }
  }

  /** A call that waits makes it try sooner: it may have only a minute. */
  async #pause(delayMs: number, signal: AbortSignal): Promise<void> {
    const { reconnectMsMax, reconnectWantedMsMax } = this.#options.limits
    let rest = Math.min(reconnectMsMax, delayMs)
    do {
      await sleep(Math.min(rest, reconnectWantedMsMax), signal)
      rest -= reconnectWantedMsMax
    } while (rest > 0 && !signal.aborted && this.#waiters.count === 0)
  }

  /** Only a login helps with this call; other calls continue. The next login asks for the missing rights. */
  #lacksScope({ cause }: Fault): boolean {
    if (!InsufficientScopeError.isInstance(cause)) return false
    const { name, config, stateDir } = this.#options
    const login = stateDir === undefined ? undefined : readLogin(stateDir, name, config.url ?? '')
    if (stateDir !== undefined && login !== undefined)
      writeLogin(stateDir, name, { ...login, missingScope: cause.requiredScope })
    return true
  }

  /** The user's own headers come first. */
  #authProvider(): { readonly authProvider?: Bearer } {
    const { config, stateDir, onSecrets } = this.#options
    const hasHeader = Object.keys(config.headers ?? {}).some((name) => name.toLowerCase() === 'authorization')
    if (hasHeader || stateDir === undefined) return {}
    return { authProvider: new Bearer({ ...this.#callee, url: config.url ?? '', stateDir, onSecrets }) }
  }

  #faultOf(thrown: unknown): Fault {
    const context = { boundary: 'mcp', ...this.#callee } as const
    if (isFault(thrown)) return thrown
    if (UnauthorizedError.isInstance(thrown))
      return new Fault('mcp_auth_failed', { cause: thrown, facts: this.#callee })
    if (SdkHttpError.isInstance(thrown)) {
      const response = { status: thrown.status, body: thrown.data['text'] }
      return classify(thrown, { ...context, response })
    }
    const detail = messageOf(thrown)
    if (SdkError.isInstance(thrown) && thrown.code === SdkErrorCode.InvalidResult)
      return new Fault('mcp_protocol_error', { cause: thrown, facts: { ...this.#callee, detail } })
    const fault = classify(thrown, context)
    if (isFault(fault) && fault.category !== 'other') return fault
    return new Fault('mcp_unreachable', { cause: thrown, facts: { ...this.#callee, detail } })
  }

  #set(state: McpState): void {
    if (this.#state !== state) {
      this.#state = state
      this.#since = isoNow()
      this.#options.onState()
    }
    this.#waiters.wake()
  }
}
