/**
 * The one connection to the daemon. It comes back on its own, and says what it knows about being away.
 *
 * I1  Every wait is bounded: 5 s for a handshake, 0.25 to 5 s with full jitter between two, none when the network or the tab
 *     comes back.
 * I2  A request whose answer did not come fails with the connection. What must not run twice has a key, and is sent again by
 *     its owner.
 * I3  A browser cannot tell a refused token from a daemon that is gone: both are close code 1006. Two plain requests can.
 */
import { signal } from '@preact/signals'
import { WS_PROTOCOL, WS_TOKEN_PREFIX } from '@breakfall/wire/browser'
import { clock } from '../clock.ts'
import { CallError, currentToken, send } from './api.ts'
import { hasFields, isJson, isText, type Json } from './shapes.ts'

export type LinkState =
  | { readonly kind: 'connecting'; readonly since: number }
  | { readonly kind: 'open'; readonly since: number }
  | { readonly kind: 'silent'; readonly since: number }
  | { readonly kind: 'lost'; readonly since: number }
  | { readonly kind: 'refused'; readonly since: number }

const HANDSHAKE_MS = 5_000
const BACKOFF_MS = { first: 250, max: 5_000 }
/** The daemon sends a beat every 5 s. After two missed ones it is not answering; after five, another connection may reach it. */
const SILENT_MS = 11_000
const ABANDONED_MS = 26_000

type Frame = Json
type Pending = { readonly resolve: (result: Json) => void; readonly reject: (error: CallError) => void }

export class Link {
  readonly state = signal<LinkState>({ kind: 'connecting', since: clock.local() })
  /** Called after each connection, before anything else is sent. */
  onOpen: () => void = () => undefined
  onFrame: (frame: Frame) => void = () => undefined
  /** True once this connection has a beat to miss. */
  hasBeat = false
  #socket: WebSocket | null = null
  #pending = new Map<number, Pending>()
  #nextId = 1
  #failures = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #heardAt = 0
  #lookedAt = 0
  #lostAt = 0

  start(): void {
    addEventListener('online', () => this.#now())
    document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && this.#now())
    setInterval(() => this.#watchSilence(), 1_000)
    this.#connect()
  }

  /** After a new token. */
  restart(): void {
    this.#failures = 0
    this.#socket?.close()
    this.#connect()
  }

  request(method: string, params: Json = {}): Promise<Json> {
    const socket = this.#socket
    if (socket?.readyState !== WebSocket.OPEN) return Promise.reject(away())
    const id = this.#nextId++
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      socket.send(JSON.stringify({ id, method, params }))
    })
  }

  // ---- details, in the order they are used above ----

  #connect(): void {
    clearTimeout(this.#timer)
    const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}/v1/ws`, [
      WS_PROTOCOL,
      `${WS_TOKEN_PREFIX}${currentToken()}`,
    ])
    this.#socket = socket
    this.hasBeat = false
    const limit = setTimeout(() => socket.close(), HANDSHAKE_MS) // I1
    socket.addEventListener('open', () => {
      clearTimeout(limit)
      if (socket !== this.#socket) return
      this.#failures = 0
      this.#heardAt = clock.local()
      this.#set('open')
      this.onOpen()
    })
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (socket === this.#socket && isText(data)) this.#take(data)
    })
    socket.addEventListener('close', () => {
      clearTimeout(limit)
      if (socket === this.#socket) void this.#closed()
    })
  }

  #take(data: string): void {
    this.#heardAt = clock.local()
    if (this.state.peek().kind === 'silent') this.#set('open')
    const frame = parsed(data)
    if (frame === null) return
    const { id } = frame
    const pending = typeof id === 'number' ? this.#pending.get(id) : undefined
    if (pending === undefined || typeof id !== 'number') return this.onFrame(frame)
    this.#pending.delete(id)
    if (isJson(frame['result'])) return pending.resolve(frame['result'])
    const error = frame['error']
    pending.reject(
      hasFields(error, { category: isText, error: isText })
        ? new CallError({ category: error.category, error: error.error, status: 0 })
        : new CallError({
            category: 'other',
            error: 'The daemon sent an answer that this page cannot read.',
            status: 0,
          }),
    )
  }

  async #closed(): Promise<void> {
    this.#socket = null
    if (this.#lostAt === 0 || this.state.peek().kind === 'open') this.#lostAt = clock.local()
    for (const pending of this.#pending.values()) pending.reject(away()) // I2
    this.#pending.clear()
    if (this.state.peek().kind !== 'refused') this.#set('lost')
    const isRefused = await isTokenRefused() // I3
    if (this.#socket !== null) return
    if (isRefused) return this.#set('refused')
    this.#set('lost')
    const ceiling = Math.min(BACKOFF_MS.max, BACKOFF_MS.first * 2 ** this.#failures)
    this.#failures += 1
    this.#timer = setTimeout(() => this.#connect(), clock.random() * ceiling)
  }

  #now(): void {
    if (this.#socket !== null || this.state.peek().kind === 'refused') return
    this.#failures = 0
    this.#connect()
  }

  #watchSilence(): void {
    const at = clock.local()
    const wasAsleep = at - this.#lookedAt > 4_000 // this tab was frozen or busy: the silence was ours
    this.#lookedAt = at
    if (wasAsleep) this.#heardAt = at
    if (!this.hasBeat || this.#socket === null) return
    const silentMs = at - this.#heardAt
    if (silentMs > ABANDONED_MS) return this.#socket.close()
    if (silentMs > SILENT_MS && this.state.peek().kind === 'open') this.#set('silent')
  }

  #set(kind: LinkState['kind']): void {
    const since = kind === 'lost' ? this.#lostAt : clock.local()
    if (this.state.peek().kind !== kind) this.state.value = { kind, since }
  }
}

const away = (): CallError =>
  new CallError({
    category: 'daemon_unreachable',
    error: 'The connection to the daemon broke before it answered. The page reconnects on its own.',
    status: 0,
  })

/** False too if the daemon is gone. */
async function isTokenRefused(): Promise<boolean> {
  try {
    await send('/v1/sessions?limit=1', { signal: AbortSignal.timeout(HANDSHAKE_MS) })
    return false
  } catch (error) {
    return error instanceof CallError && error.fault.status === 401
  }
}

function parsed(data: string): Frame | null {
  try {
    const value: unknown = JSON.parse(data)
    return isJson(value) ? value : null
  } catch {
    return null // not from our daemon
  }
}
