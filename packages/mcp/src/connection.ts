/**
 * One conversation with a server: handshake in the era that it speaks, its tools, and calls. The SDK's client does the
 * protocol; a new run of a server, or a new session, is a new connection.
 */
import { sleep } from '@breakfall/faults'
import { TIMER_MS_MAX } from '@breakfall/faults/internal'
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  Client,
  type PriorDiscovery,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
} from '@modelcontextprotocol/client'
import manifest from '../package.json' with { type: 'json' }
import type { Fault } from '@breakfall/faults'
import { type Answered, type Callee, endOf, messageOf, type RequestEnd } from './call-end.ts'
import { systemNow } from './clock.ts'
import { MCP_LIMITS } from './config.ts'
import { isToolResult, textOf } from './content.ts'
import { IdleLimit } from './idle-limit.ts'
import { type Continues, formIn, type McpAnswer, type McpQuestion, withDefaults } from './question.ts'
import { CALL_KEY, type LateAnswer, NOT_FROM_SERVER, type Tap } from './tap.ts'
import { type McpTool, toolsOf, type ToolList } from './tool.ts'
import type { McpServerConfig } from './config.ts'

export type ConnectionOptions = {
  readonly name: string
  readonly config: McpServerConfig
  readonly tap: Tap
  /** The era, if it is known. */
  readonly prior: PriorDiscovery | undefined
  readonly startMs: number
  /** How long each request of the handshake may take. Default: `startMs`. */
  readonly handshakeMs?: number | undefined
  /** From the first error to a list of tools to the next request for it. */
  readonly relistMs: number
  readonly signal?: AbortSignal | undefined
  /** For messages; undefined for a local process. */
  readonly address?: string | undefined
  /** The server's tools have changed, or it cannot list them now. */
  readonly onTools: (list: ToolList | undefined) => void
  /** Questions of the server can be answered. */
  readonly canAsk: boolean
}

export type CallRequest = {
  readonly tool: McpTool
  readonly arguments: Readonly<Record<string, unknown>>
  /** Names this call for good: the same call has the same key after a crash. */
  readonly key: string
  /** It continues after a question. */
  readonly continues?: Continues | undefined
}

export type CallOptions = {
  readonly signal: AbortSignal
  readonly callMs: number
  /** The server reported progress. */
  readonly onProgress?: ((message: string) => void) | undefined
  readonly onQuestion?: ((question: McpQuestion) => Promise<McpAnswer>) | undefined
  /** The answer to a call that had taken too long. */
  readonly onLate?: ((answer: Answered) => void) | undefined
}

type OpenCall = Pick<CallOptions, 'onQuestion'> & { readonly idle: IdleLimit }

const CLIENT_INFO = { name: 'breakfall', version: manifest.version }
/** A request without an effect. */
const CHECKED = { isSent: true, isCut: false, task: undefined, input: undefined, onLate: undefined }
const CAPABILITIES = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const capabilitiesOf = ({ canAsk }: Pick<ConnectionOptions, 'canAsk'>) =>
  canAsk ? { ...CAPABILITIES, ...ELICITATION } : CAPABILITIES
const ELICITATION = { elicitation: { form: { applyDefaults: true } } }
const TASK_TTL_MS = 3_600_000
const LISTEN_MS = 10_000
const RELIST_MS = 200 // a server that registers ten tools announces ten changes
const RELIST_MS_MAX = 60_000

export class Connection {
  readonly #options: ConnectionOptions
  readonly #client: Client
  #list: ToolList = { tools: [], refused: [] }
  #listError: string | undefined
  #failedLists = 0
  #relisting: NodeJS.Timeout | undefined
  readonly #life = new AbortController()
  readonly #open = new Set<OpenCall>()

  private constructor(options: ConnectionOptions, client: Client) {
    this.#options = options
    this.#client = client
  }

  /** Resolves when the server has said which tools it offers. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { tap, prior, startMs, handshakeMs = startMs, signal } = options
    const limits = { timeout: handshakeMs, ...(signal === undefined ? {} : { signal }) }
    const { canAsk } = options
    const client = new Client(CLIENT_INFO, {
      capabilities: capabilitiesOf(options),
      inputRequired: { autoFulfill: false }, // `McpServer` does: the answer may take a day, and the journal has it before it leaves
      versionNegotiation: { mode: 'auto', probe: { timeoutMs: Math.min(MCP_LIMITS.probeMs, startMs) } },
      listMaxPages: MCP_LIMITS.pagesMax,
    })
    client.onerror = () => undefined // a message that nobody can read; the request that it belongs to times out
    const connection = new Connection(options, client)
    if (canAsk)
      client.setRequestHandler('elicitation/create', async ({ method, params }, { mcpReq: { signal } }) => {
        const answer = await connection.#ask({ method, params }, signal)
        return answer.action === 'accept' ? { ...answer, content: { ...answer.content } } : answer
      })
    await client.connect(tap, { ...limits, ...(prior === undefined ? {} : { prior }) })
    try {
      await connection.#relist(limits)
      connection.#followChanges()
    } catch (thrown) {
      await connection.close()
      throw thrown
    }
    return connection
  }

  /** The negotiated version of the protocol. */
  get era(): string | null {
    return this.#client.getNegotiatedProtocolVersion() ?? null
  }

  get isModern(): boolean {
    return this.#client.getProtocolEra() === 'modern'
  }

  get list(): ToolList {
    return this.#list
  }

  /** Why a healthy server could not list its tools, in its words. */
  get listError(): string | undefined {
    return this.#listError
  }

  /** The server could have forgotten our session meanwhile. */
  isQuiet(sinceMs: number): boolean {
    const { sessionId, heardAt } = this.#options.tap
    return sessionId !== undefined && systemNow() - heardAt >= sinceMs
  }

  /** Asks whether the server still has our session, without an effect. A fault if it does not say so. */
  async check(signal: AbortSignal): Promise<Fault | undefined> {
    try {
      await this.exchange('ping', {}, AbortSignal.any([signal, AbortSignal.timeout(MCP_LIMITS.checkMs)]))
      return undefined
    } catch (thrown) {
      signal.throwIfAborted()
      const isAnswer = thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'number'
      const end = isAnswer ? undefined : endOf(thrown, CHECKED, this.#callee)
      return end !== undefined && 'fault' in end ? end.fault : undefined
    }
  }

  get stray(): number {
    return this.#options.tap.stray
  }

  /** What to remember for the next start. Undefined if the server did not settle it. */
  get verdict(): PriorDiscovery | undefined {
    const discover = this.#client.getDiscoverResult()
    if (discover !== undefined) return { kind: 'modern', discover }
    return this.#options.tap.hasAnsweredLate ? undefined : { kind: 'legacy' }
  }

  async call({ tool, arguments: given, key, continues }: CallRequest, options: CallOptions): Promise<RequestEnd> {
    const { tap } = this.#options
    const { signal, callMs, onProgress, onQuestion } = options
    const tracked = tap.track(key)
    const task = tool.needsTask && !this.isModern ? { task: { ttl: TASK_TTL_MS } } : {}
    const params = {
      name: tool.tool,
      arguments: { ...given },
      _meta: { [CALL_KEY]: key },
      ...task,
      ...retryOf(continues),
    }
    using idle = new IdleLimit(callMs, callMs * MCP_LIMITS.callMsMaxFactor)
    const open = { onQuestion, idle }
    this.#open.add(open)
    try {
      const result = await this.#client.callTool(params, {
        signal: AbortSignal.any([signal, idle.signal]),
        timeout: TIMER_MS_MAX, // `idle` knows when a person is asked
        onprogress: ({ message }) => {
          idle.restart()
          onProgress?.(message ?? '') // without a callback the client asks for no progress
        },
      })
      return { kind: 'answered', ...textOf(result) }
    } catch (thrown) {
      if (tracked.task !== undefined) return { kind: 'task', task: tracked.task }
      if (signal.aborted) return { kind: 'cancelled' }
      if (idle.signal.aborted) tracked.onLate = (answer) => options.onLate?.(lateEnd(answer))
      if (tracked.input !== undefined && !tracked.isCut) return { kind: 'asks', input: tracked.input }
      return endOf(idle.signal.aborted ? idle.signal.reason : thrown, tracked, this.#callee)
    } finally {
      this.#open.delete(open)
      tap.untrack(key)
    }
  }

  /** A question in the middle of a call. It does not say of which, so it is put only if there is no doubt. */
  async #ask(request: unknown, signal: AbortSignal): Promise<McpAnswer> {
    const form = formIn(request)
    const [call, ...others] = this.#open
    if (form === undefined || call?.onQuestion === undefined || others.length > 0) return { action: 'cancel' }
    call.idle.stop()
    try {
      return withDefaults(await call.onQuestion({ ...form, continues: undefined, signal }), form.schema)
    } finally {
      call.idle.restart()
    }
  }

  /** A request that the SDK's client does not send. */
  exchange(method: string, params: Record<string, unknown>, signal: AbortSignal): Promise<unknown> {
    const version = this.era
    const envelope = this.isModern
      ? {
          _meta: {
            [PROTOCOL_VERSION_META_KEY]: version,
            [CLIENT_INFO_META_KEY]: CLIENT_INFO,
            [CLIENT_CAPABILITIES_META_KEY]: capabilitiesOf(this.#options),
          },
        }
      : {}
    return this.#options.tap.exchange(method, { ...params, ...envelope }, signal)
  }

  async close(): Promise<void> {
    this.#life.abort()
    clearTimeout(this.#relisting)
    await this.#client.close().catch(() => undefined) // it is closed already
  }

  get #callee(): Callee {
    const { name, address } = this.#options
    return { name, address }
  }

  async #relist(limits: { readonly timeout: number; readonly signal?: AbortSignal }): Promise<void> {
    const { name, config, relistMs, onTools } = this.#options
    if (this.#client.getServerCapabilities()?.tools === undefined) return onTools(this.#list) // it offers something else
    const { unusable } = this.#options.tap
    unusable.clear()
    try {
      const { tools } = await this.#client.listTools(undefined, { ...limits, cacheMode: 'refresh' })
      const list = toolsOf(name, tools, config)
      const refused = [...unusable].map((tool) => ({ tool, because: 'its definition is not MCP' }))
      this.#list = { tools: list.tools, refused: [...list.refused, ...refused] }
      this.#listError = undefined
      this.#failedLists = 0
      onTools(this.#list)
    } catch (thrown) {
      if (!ProtocolError.isInstance(thrown) || thrown.data === NOT_FROM_SERVER) throw thrown
      // It is healthy: perhaps what it asks for its tools is away. They stay as they were, and it is asked again.
      this.#listError = `it cannot list its tools: ${messageOf(thrown)}`
      this.#relistIn(Math.min(RELIST_MS_MAX, relistMs * 2 ** this.#failedLists))
      this.#failedLists += 1
      onTools(undefined)
    }
  }

  #followChanges(): void {
    this.#client.setNotificationHandler('notifications/tools/list_changed', () => this.#relistIn(RELIST_MS))
    const { tools } = this.#client.getServerCapabilities() ?? {}
    if (this.isModern && tools?.listChanged === true) void this.#listen()
  }

  #relistIn(delayMs: number): void {
    clearTimeout(this.#relisting)
    this.#relisting = setTimeout(() => {
      this.#relist({ timeout: this.#options.startMs }).catch(() => undefined) // the last list stays; a call to a tool that is gone fails
    }, delayMs)
  }

  /** In 2026 a server reports changes only to those who listen. */
  async #listen(): Promise<void> {
    while (!this.#life.signal.aborted) {
      try {
        const subscription = await this.#client.listen({ toolsListChanged: true }, { timeout: LISTEN_MS })
        const closed = await subscription.closed
        if (closed === 'local' || this.#life.signal.aborted) return
        this.#relistIn(RELIST_MS) // what changed meanwhile was not reported
      } catch {
        if (this.#life.signal.aborted) return // it was closed meanwhile; otherwise the server does not offer it now
      }
      await sleep(LISTEN_MS, this.#life.signal)
    }
  }
}

// ---- details ----

const lateEnd = (answer: LateAnswer): Answered =>
  'error' in answer
    ? { kind: 'answered', isError: true, text: answer.error }
    : isToolResult(answer.result)
      ? { kind: 'answered', ...textOf(answer.result) }
      : { kind: 'answered', isError: true, text: 'It answered, but its result cannot be used.' }

const retryOf = (continues: Continues | undefined): object =>
  continues === undefined
    ? {}
    : {
        ...(Object.keys(continues.responses).length === 0 ? {} : { inputResponses: continues.responses }),
        ...(continues.state === undefined ? {} : { requestState: continues.state }),
      }
