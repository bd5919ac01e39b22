/**
 * A transport between the SDK's client and a server that sees every message: it knows which calls have left, ends a call whose
 * response stream was cut, takes task handles out of results, and carries requests that the client does not know.
 *
 * I1  A request gets at most one response. Second answers and answers to nobody are counted and dropped.
 * I2  A call counts as sent from just before it is handed to the transport.
 * I3  One tool that is not MCP does not hide the others: the client, which accepts all or none, never sees it.
 * I4  A result without a kind is a complete one: clients must read it so, and the client of the SDK does not.
 */
import { isObject } from '@breakfall/faults/internal'
import { systemNow } from './clock.ts'
import { type InputRequired, inputRequiredIn } from './question.ts'
import {
  isSpecType,
  type JSONRPCMessage,
  type MessageExtraInfo,
  PROTOCOL_VERSION_META_KEY,
  type Transport,
  type TransportSendOptions,
} from '@modelcontextprotocol/client'

/** Where a call's key travels, so that a server that knows it can recognise a repetition. */
export const CALL_KEY = 'io.breakfall/call'

/** A task that a server started instead of answering. */
export type TaskHandle = { readonly taskId: string; readonly pollMs: number | undefined }

export type TrackedCall = {
  isSent: boolean
  /** The response stream ended without a response. */
  isCut: boolean
  task: TaskHandle | undefined
  /** What the server needs before it can answer, if that was the last thing it said. */
  input: InputRequired | undefined
  /** Set once the call has taken too long. */
  onLate: ((answer: LateAnswer) => void) | undefined
}

/** A result, or the message of an error. */
export type LateAnswer = { readonly result: unknown } | { readonly error: string }

/** The data of an error that a server did not send. */
export const NOT_FROM_SERVER = 'the server did not send this error'

type Sent = { readonly method: string; readonly call: TrackedCall | undefined; readonly isModern: boolean }
type Exchange = { readonly resolve: (result: unknown) => void; readonly reject: (error: Error) => void }

export class Tap implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void
  /** Responses that nobody asked for. */
  stray = 0
  /** A server that was taken for one of 2025, because it started slowly, knows `server/discover` after all. */
  hasAnsweredLate = false
  /** When it last sent anything. */
  heardAt = systemNow()
  /** Tools in the server's lists that are not MCP. */
  readonly unusable = new Set<string>()
  readonly #inner: Transport
  readonly #sent = new Map<string | number, Sent>()
  readonly #probes = new Set<string | number>()
  readonly #calls = new Map<string, TrackedCall>()
  readonly #exchanges = new Map<string, Exchange>()
  #count = 0

  constructor(inner: Transport) {
    this.#inner = inner
    inner.onmessage = (message, extra) => this.#receive(message, extra)
    inner.onerror = (error) => this.onerror?.(error)
    inner.onclose = () => this.#closed()
  }

  get hasPerRequestStream(): boolean {
    return this.#inner.hasPerRequestStream === true
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version)
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#inner.setSupportedProtocolVersions?.(versions)
  }

  start(): Promise<void> {
    return this.#inner.start()
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    if (!('method' in message) || !('id' in message)) return this.#inner.send(message, options)
    const { id, method, params } = message
    const key = params?._meta?.[CALL_KEY]
    const call = typeof key === 'string' ? this.#calls.get(key) : undefined
    this.#sent.set(id, { method, call, isModern: params?._meta?.[PROTOCOL_VERSION_META_KEY] !== undefined })
    if (method === 'server/discover') this.#probes.add(id)
    if (call !== undefined) Object.assign(call, { isSent: true, input: undefined }) // I2
    const { onRequestStreamEnd } = options
    const ended = (): void => {
      onRequestStreamEnd?.()
      this.#cut(id)
    }
    try {
      await this.#inner.send(message, { ...options, onRequestStreamEnd: ended })
    } catch (thrown) {
      this.#sent.delete(id)
      throw thrown
    }
  }

  track(key: string): TrackedCall {
    const call: TrackedCall = { isSent: false, isCut: false, task: undefined, input: undefined, onLate: undefined }
    this.#calls.set(key, call)
    return call
  }

  untrack(key: string): void {
    this.#calls.delete(key)
  }

  /** A request of our own, for methods that the client does not send. */
  async exchange(method: string, params: Record<string, unknown>, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted()
    this.#count += 1
    const id = `breakfall-${this.#count}`
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    promise.catch(() => undefined) // it may be rejected while the request is still being sent; that is reported below
    this.#exchanges.set(id, { resolve, reject })
    const abort = (): void => reject(new Error('the request was given up'))
    signal.addEventListener('abort', abort, { once: true })
    try {
      await this.send({ jsonrpc: '2.0', id, method, params }, { requestSignal: signal })
      return await promise
    } finally {
      signal.removeEventListener('abort', abort)
      this.#exchanges.delete(id)
      this.#sent.delete(id)
    }
  }

  // ---- details ----

  #receive(received: JSONRPCMessage, extra?: MessageExtraInfo): void {
    this.heardAt = systemNow()
    if ('method' in received) return this.onmessage?.(received, extra)
    const { id } = received
    const sent = id === undefined ? undefined : this.#sent.get(id)
    if (id === undefined || sent === undefined) {
      if (id !== undefined && this.#probes.has(id) && 'result' in received) this.hasAnsweredLate = true
      this.stray += 1 // I1
      return
    }
    this.#sent.delete(id)
    const message = sent.isModern ? withKind(received) : received
    const exchange = typeof id === 'string' ? this.#exchanges.get(id) : undefined
    if (exchange !== undefined) {
      if ('result' in message) exchange.resolve(message.result)
      else exchange.reject(Object.assign(new Error(message.error.message), { code: message.error.code }))
      return
    }
    if (sent.call?.onLate !== undefined) {
      sent.call.onLate('result' in message ? message : { error: message.error.message })
      return // the client has forgotten the request
    }
    if (sent.method === 'tools/list' && 'result' in message) return this.onmessage?.(this.#usable(message), extra)
    if (sent.call === undefined || !('result' in message)) return this.onmessage?.(message, extra)
    sent.call.input = inputRequiredIn(message.result)
    sent.call.task = taskIn(message.result)
    if (sent.call.task !== undefined) return this.#fail(id, 'the server runs this call as a task')
    this.onmessage?.(message, extra)
  }

  /** I3 */
  #usable<T extends { readonly result: Record<string, unknown> }>(message: T): T {
    const { tools } = message.result
    if (!Array.isArray(tools)) return message
    const listed: readonly unknown[] = tools
    const usable = listed.filter((tool) => isSpecType.Tool(tool))
    if (usable.length === listed.length) return message
    for (const tool of listed.filter((entry) => !isSpecType.Tool(entry)).slice(0, UNUSABLE_MAX))
      this.unusable.add(isObject(tool) && typeof tool['name'] === 'string' ? tool['name'].slice(0, 100) : '?')
    return { ...message, result: { ...message.result, tools: usable } }
  }

  /** Without this, the client would wait for its whole time limit. */
  #cut(id: string | number): void {
    const sent = this.#sent.get(id)
    if (sent === undefined) return
    this.#sent.delete(id)
    if (sent.call !== undefined) sent.call.isCut = true
    const exchange = typeof id === 'string' ? this.#exchanges.get(id) : undefined
    if (exchange !== undefined) exchange.reject(new Error('the response was cut off'))
    else this.#fail(id, 'the response was cut off')
  }

  #fail(id: string | number, message: string): void {
    this.onmessage?.({ jsonrpc: '2.0', id, error: { code: -32_000, message, data: NOT_FROM_SERVER } })
  }

  #closed(): void {
    for (const { reject } of this.#exchanges.values()) reject(new Error('the connection is closed'))
    this.#exchanges.clear()
    this.#sent.clear()
    this.onclose?.()
  }
}

const UNUSABLE_MAX = 100

/** The shape that the SDK's client takes for a local process: there, silence after the era probe means a server of 2025. */
export class StdioTap extends Tap {
  readonly stderr = null
  readonly pid = null
}

type Answer = Exclude<JSONRPCMessage, { readonly method: string }>

/** I4 */
const withKind = (message: Answer): Answer =>
  'result' in message && !('resultType' in message.result)
    ? { ...message, result: { ...message.result, resultType: 'complete' } }
    : message

/** Flat in the extension of 2026, under `task` in 2025. */
export function taskIn(result: unknown): TaskHandle | undefined {
  if (!isObject(result)) return undefined
  const isTask = result['resultType'] === 'task' || isObject(result['task'])
  const holder = isObject(result['task']) ? result['task'] : result
  const taskId = holder['taskId']
  if (!isTask || typeof taskId !== 'string' || taskId === '') return undefined
  const poll = holder['pollIntervalMs'] ?? holder['pollInterval']
  return { taskId, pollMs: typeof poll === 'number' && poll >= 0 ? poll : undefined }
}
