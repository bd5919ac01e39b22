/**
 * One MCP server: its state, its tools, and calls that never run twice.
 *
 * I1  `onSent` is awaited before the call leaves, so the caller's journal has it first.
 * I2  A call made against another definition of a tool than the server offers now is refused by name.
 * I3  A call that left is never sent again, also if its session is gone. A call that certainly did not leave waits for a connection.
 * I4  A lost session is found by a request without an effect, before a call, if the server could have forgotten it meanwhile.
 */
import { Fault, isFault, sleep } from '@breakfall/faults'
import type { McpDetail } from '@breakfall/wire'
import { type Answered, asksEnd, type CallEnd, type RequestEnd } from './call-end.ts'
import type { McpLimits, McpServerConfig } from './config.ts'
import { systemNow } from './clock.ts'
import { MCP_LIMITS } from './config.ts'
import type { Connection } from './connection.ts'
import { HttpLink } from './http-link.ts'
import type { LastExit, Link, McpState } from './link.ts'
import { type LinkOptions, StdioLink } from './stdio-link.ts'
import {
  type Continues,
  formIn,
  type InputRequired,
  type McpAnswer,
  type McpQuestion,
  withDefaults,
} from './question.ts'
import type { TaskHandle } from './tap.ts'
import { followTask } from './tasks.ts'
import type { McpTool, RefusedTool } from './tool.ts'

export type McpStatus = {
  readonly name: string
  readonly state: McpState
  /** The version of the protocol that it speaks, once that is known. */
  readonly era: string | null
  /** How many tools it offers. */
  readonly tools: number
  readonly since: string
  readonly lastExit?: LastExit | undefined
  /** Why it is restarting or has failed. */
  readonly error?: string | undefined
}

export type ToolCallRequest = {
  /** As the model calls it. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The definition that the model was shown. Undefined: whatever is offered now. */
  readonly hash?: string | undefined
  /** Names this call for good. */
  readonly key: string
  /** An earlier process made the call, and this is what the person answered who was asked. */
  readonly continues?: Continues | undefined
}

export type ToolCallOptions = {
  readonly signal: AbortSignal
  /** Before each request that leaves for the call: another one follows when a question was answered. */
  readonly onSent?: (() => Promise<void>) | undefined
  /** What `onSent` announced did not leave after all; it is called again before the next attempt. */
  readonly onUnsent?: (() => Promise<void>) | undefined
  readonly onTask?: ((taskId: string) => Promise<void>) | undefined
  readonly onProgress?: ((message: string) => void) | undefined
  /** Asks a person. Without it, a call that needs that is not completed. */
  readonly onQuestion?: ((question: McpQuestion) => Promise<McpAnswer>) | undefined
  /** The call was `lost` because it took too long, and has been answered after all. */
  readonly onLate?: ((answer: Answered) => void) | undefined
}

export class McpServer {
  readonly name: string
  readonly config: McpServerConfig
  readonly #limits: McpLimits
  readonly #link: Link
  #tools: ReadonlyMap<string, McpTool> = new Map()
  #refused: readonly RefusedTool[] = []

  constructor(options: Omit<LinkOptions, 'onTools'>) {
    this.name = options.name
    this.config = options.config
    this.#limits = options.limits
    const given: LinkOptions = {
      ...options,
      onTools: (list) => {
        if (list !== undefined) {
          this.#tools = new Map(list.tools.map((tool) => [tool.name, tool]))
          this.#refused = list.refused
        }
        options.onState()
      },
    }
    this.#link = options.config.url === undefined ? new StdioLink(given) : new HttpLink(given)
  }

  get status(): McpStatus {
    const { state, since, connection, lastExit } = this.#link
    const error = state === 'ready' ? connection?.listError : this.#link.fault?.error
    return {
      name: this.name,
      state,
      era: connection?.era ?? null,
      tools: this.#tools.size,
      since,
      ...(lastExit === null ? {} : { lastExit }),
      ...(error === undefined ? {} : { error }),
    }
  }

  /** Those it offers, or offered last if it is restarting. */
  get tools(): readonly McpTool[] {
    return this.#link.state === 'failed' ? [] : [...this.#tools.values()]
  }

  /** Everything that is known about it, as the API shows it. */
  get detail(): McpDetail {
    const offered = this.tools.map((tool) => ({
      name: tool.name,
      tool: tool.tool,
      description: tool.description,
      inputSchema: tool.inputSchema,
      readOnly: tool.isReadOnly,
      idempotent: tool.isIdempotent,
      trusted: tool.isTrusted,
    }))
    const { fault } = this
    return {
      ...this.status,
      offered,
      refused: this.#refused,
      log: this.log,
      ...(fault === null ? {} : { fault: fault.report }),
    }
  }

  /** How long a start may take. */
  get startMs(): number {
    return this.config.startMs ?? this.#limits.startMs
  }

  get log(): readonly string[] {
    return this.#link.log
  }

  /** How long a call waits for it while it is away. */
  get awayMs(): number {
    return this.config.awayMs ?? this.#limits.awayMs
  }

  /** Why its tools are missing, or null if they are not. */
  get missing(): string | null {
    const { state, fault, connection } = this.#link
    if (state === 'ready') return connection?.listError ?? null
    return state === 'starting' ? 'it is still starting' : (fault?.error ?? `it is ${state}`)
  }

  /** Why it takes no calls now, or null if it is ready. */
  get fault(): Fault | null {
    return this.state === 'ready' ? null : this.#notReady()
  }

  get state(): McpState {
    return this.#link.state
  }

  start(): void {
    this.#link.start()
  }

  restart(): Promise<void> {
    return this.#link.restart()
  }

  stop(): Promise<void> {
    return this.#link.stop()
  }

  /** Returns when it is ready or has failed, or when the signal fires. */
  async settled(signal: AbortSignal): Promise<void> {
    await this.#link.connected(signal).catch(() => undefined) // the status says which
  }

  /** Returns when its first start has succeeded or failed, or when the signal fires. */
  async tried(signal: AbortSignal): Promise<void> {
    await this.#link.tried(signal).catch(() => undefined) // the status says which
  }

  /** Returns when it is ready, has failed or keeps failing to start, or when the signal fires. */
  async started(signal: AbortSignal): Promise<void> {
    await this.#link.started(signal).catch(() => undefined) // the status says which
  }

  async call(request: ToolCallRequest, options: ToolCallOptions): Promise<CallEnd> {
    const { signal } = options
    let { continues } = request
    let until = systemNow() + this.awayMs
    let rounds = 0
    for (let attempt = 1; ; attempt += 1) {
      const connection = await this.#connection(signal, until)
      if (isFault(connection)) return signal.aborted ? { kind: 'cancelled' } : { kind: 'refused', fault: connection }
      const end = await this.#callOn(connection, { ...request, continues }, options)
      if (end.kind === 'asks') {
        if (++rounds > ROUNDS_MAX) return asksEnd(end.input, 'again and again')
        const answered = await answersTo(end.input, options)
        if (signal.aborted) return { kind: 'cancelled' }
        if (answered === undefined) return asksEnd(end.input, 'which Breakfall cannot give')
        continues = answered
        until = systemNow() + this.awayMs
        attempt = 0
        continue
      }
      if (end.kind === 'task') {
        await options.onTask?.(end.task.taskId)
        return this.follow(end.task, signal)
      }
      if (end.kind !== 'lost' && end.kind !== 'refused') return end
      if (NOT_BROKEN.has(end.fault.category) && end.kind === 'refused') return end
      const fault = await this.#link.broken(connection, end.fault)
      if (isUnsent(end) && attempt < ATTEMPTS_MAX && systemNow() < until) {
        await options.onUnsent?.()
        continue // I3
      }
      return { kind: end.kind, fault: fault.with({ sideEffects: end.fault.report.sideEffects }) }
    }
  }

  /** Waits for the end of a task that this server runs. */
  follow(task: TaskHandle, signal: AbortSignal): Promise<CallEnd> {
    const totalMs = this.#callMs * MCP_LIMITS.callMsMaxFactor
    return followTask(task, { name: this.name, signal, totalMs, connected: (limit) => this.#link.connected(limit) })
  }

  // ---- details ----

  get #callMs(): number {
    return this.config.callMs ?? this.#limits.callMs
  }

  /** A fault if there is none in time. */
  async #connection(signal: AbortSignal, until: number): Promise<Connection | Fault> {
    const { connection } = this.#link
    if (connection !== undefined && !signal.aborted && !connection.isQuiet(this.#limits.quietMs)) return connection
    const limit = AbortSignal.any([signal, AbortSignal.timeout(Math.max(0, until - systemNow()))])
    try {
      for (;;) {
        const found = await this.#link.connected(limit)
        const lost = found === connection ? await found.check(limit) : undefined // I4
        if (lost === undefined) return found
        await this.#link.broken(found, lost)
      }
    } catch (thrown) {
      if (isFault(thrown)) return thrown
      return this.#notReady()
    }
  }

  #notReady(): Fault {
    const { state, fault } = this.#link
    const category = this.config.url === undefined ? 'mcp_server_failed' : 'mcp_unreachable'
    const detail = state === 'starting' ? 'it is still starting' : 'it is restarting'
    return fault ?? new Fault(category, { facts: { name: this.name, detail } })
  }

  async #callOn(connection: Connection, request: ToolCallRequest, options: ToolCallOptions): Promise<RequestEnd> {
    const tool = this.#tools.get(request.tool)
    if (tool === undefined || (request.hash !== undefined && request.hash !== tool.hash))
      return { kind: 'refused', fault: notOffered(request, tool !== undefined) } // I2
    await options.onSent?.() // I1
    const { signal, onProgress, onQuestion, onLate } = options
    const given = { tool, arguments: request.arguments, key: request.key, continues: request.continues }
    return connection.call(given, { signal, callMs: this.#callMs, onProgress, onQuestion, onLate })
  }
}

/** These say nothing about the connection. */
const NOT_BROKEN: ReadonlySet<string> = new Set(['tool_not_offered', 'payload_too_large'])

const ATTEMPTS_MAX = 5

const ROUNDS_MAX = 10 // as the client of the SDK
const PAUSE_MS = 250

/** What continues the call: the person was asked everything, or the server only wants the call once more. Undefined: it cannot be given. */
async function answersTo(
  { requests, state }: InputRequired,
  { signal, onQuestion }: ToolCallOptions,
): Promise<Continues | undefined> {
  const responses: Record<string, McpAnswer> = {}
  for (const [open, request] of Object.entries(requests)) {
    const form = formIn(request)
    if (form === undefined || onQuestion === undefined) return undefined
    const continues = { state, open, responses: { ...responses } }
    responses[open] = withDefaults(await onQuestion({ ...form, continues, signal }), form.schema)
  }
  if (Object.keys(requests).length === 0) await sleep(PAUSE_MS, signal)
  return { state, responses }
}

/** It did not leave, and it may once the server is back. What a server answers with a status has reached one. */
const isUnsent = ({ kind, fault }: Extract<CallEnd, { readonly fault: Fault }>): boolean =>
  kind === 'refused' && UNSENT.has(fault.category) && fault.report.status === undefined

const UNSENT: ReadonlySet<string> = new Set(['mcp_unreachable', 'mcp_server_failed'])

function notOffered({ tool, hash }: ToolCallRequest, isChanged: boolean): Fault {
  const gone = hash === undefined ? 'its server does not offer it' : 'its server does not offer it any more'
  const changed =
    'its schema changed after you saw it, so this call was not run; call it again with arguments that fit the new schema'
  return new Fault('tool_not_offered', {
    facts: { name: tool.slice(0, 100), detail: isChanged ? changed : gone },
    sideEffects: 'none',
  })
}
