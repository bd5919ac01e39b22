/**
 * The one connection to the daemon. It comes back on its own, and says what it knows about being away.
 *
 * I1  Every wait is bounded: 5 s for a handshake, up to 5 s with full jitter between two, none when the network or the tab comes back.
 *     The client's retry loop does the waiting, for as long as it takes.
 * I2  A request whose answer did not come fails with the connection. What must not run twice has a key, and is sent again by
 *     its owner.
 * I3  A browser cannot tell a refused token from a daemon that is gone: both are close code 1006. A plain request can.
 * I4  A connection that the page itself drops, because events are missing, is followed by a longer wait each time.
 */
import { signal } from '@preact/signals'
import { FOREVER, faultInReport, isFault, type ReportedFault, reportedFault } from '@breakfall/client/internal'
import { WS_PROTOCOL, WS_TOKEN_PREFIX } from '@breakfall/wire/browser'
import { clock } from './clock.ts'
import { daemon, operation } from './api.ts'
import { revealed } from '../text/reveal.ts'
import { isJson, isText, type Json } from '../fold/shapes.ts'

export type LinkState = {
  readonly kind: 'connecting' | 'open' | 'silent' | 'lost' | 'refused'
  readonly since: number
}

const HANDSHAKE_MS = 5_000
/** The daemon sends a beat every 5 s. After two missed ones it is not answering; after five, another connection may reach it. */
const SILENT_MS = 11_000
const ABANDONED_MS = 26_000
const DROPS_MAX = 5 // by then the wait is longer than the longest

type Pending = { readonly resolve: (result: Json) => void; readonly reject: (error: ReportedFault) => void }

export class Link {
  readonly state = signal<LinkState>({ kind: 'connecting', since: clock.local() })
  /** Called after each connection, before anything else is sent. */
  onOpen: () => void = () => undefined
  onFrame: (frame: Json) => void = () => undefined
  /** True once this connection has a beat to miss. */
  hasBeat = false
  #socket: WebSocket | null = null
  #pending = new Map<number, Pending>()
  #nextId = 1
  #waiting = new AbortController()
  #heardAt = 0
  #lookedAt = 0
  #lostAt = 0
  #isDropped = false

  start(): void {
    addEventListener('online', () => this.#now())
    document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && this.#now())
    setInterval(() => this.#watchSilence(), 1_000)
    void this.#keepOpen()
  }

  /** After a new token. */
  restart(): void {
    if (this.state.peek().kind === 'refused') void this.#keepOpen()
    else this.drop()
  }

  /** Continues on a new connection. */
  drop(): void {
    this.#isDropped = true
    this.#socket?.close()
    this.#now()
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

  /** Ends only if the daemon refuses the token. */
  async #keepOpen(): Promise<void> {
    let drops = 0 // in a row
    for (let failed: ReportedFault | undefined; ;) {
      const { signal: woken } = this.#waiting
      const policy = { ...FOREVER, backoffMs: FOREVER.backoffMs * 2 ** drops } // I4; the client has a maximum
      this.#isDropped = false
      try {
        const { closed } = await daemon.retrying(() => this.#connect(woken), { signal: woken, failed, policy })
        this.#heardAt = clock.local()
        this.#set('open')
        this.onOpen()
        await closed
        failed = away()
        drops = this.#isDropped ? Math.min(drops + 1, DROPS_MAX) : 0
      } catch {
        // The loop gives up only on a refused token; otherwise a wake-up ended its wait.
        if (!woken.aborted) return this.#set('refused')
        this.#waiting = new AbortController()
        failed = undefined // at once, and the waits start over
      }
    }
  }

  /** Resolves when the connection is open; `closed` when it has ended. */
  async #connect(woken: AbortSignal): Promise<{ readonly closed: Promise<void> }> {
    const { url, token } = daemon.address
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/v1/ws`, [WS_PROTOCOL, `${WS_TOKEN_PREFIX}${token}`])
    this.#socket = socket
    this.hasBeat = false
    const limit = setTimeout(() => socket.close(), HANDSHAKE_MS) // I1
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (isText(data)) this.#take(data)
    })
    const closed = new Promise<void>((resolve) => socket.addEventListener('close', () => resolve(this.#closed())))
    const opened = new Promise<boolean>((resolve) => socket.addEventListener('open', () => resolve(true)))
    const isOpen = await Promise.race([opened, closed.then(() => false)])
    clearTimeout(limit)
    if (isOpen) return { closed }
    await refusal(woken)
    throw away()
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
    pending.reject(faultInReport(frame['error']) ?? unreadable())
  }

  #closed(): void {
    this.#socket = null
    if (this.#lostAt === 0 || this.state.peek().kind === 'open') this.#lostAt = clock.local()
    for (const pending of this.#pending.values()) pending.reject(away()) // I2
    this.#pending.clear()
    this.#set('lost')
  }

  #now(): void {
    if (this.#socket === null && this.state.peek().kind !== 'refused') this.#waiting.abort()
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

const away = (): ReportedFault =>
  reportedFault('daemon_unreachable', {
    error: 'The connection to the daemon broke before it answered. The page reconnects on its own.',
  })

const unreadable = (): ReportedFault =>
  reportedFault('other', { boundary: 'daemon', error: 'The daemon sent an answer that this page cannot read.' })

/** I3: throws the daemon's fault if it refuses the token. Resolves if the daemon is gone, or has no reason to refuse. */
async function refusal(woken: AbortSignal): Promise<void> {
  try {
    const call = operation('GET /v1/sessions', { limit: 1 })
    await daemon.ask({ ...call, signal: woken, timeoutMs: HANDSHAKE_MS })
  } catch (error) {
    if (isFault(error) && error.category === 'unauthorized') throw error
  }
}

function parsed(data: string): Json | null {
  try {
    const value = revealed(JSON.parse(data))
    return isJson(value) ? value : null
  } catch {
    return null // not from our daemon
  }
}
