/**
 * Hints between daemons by LISTEN and NOTIFY. Never inside an append: a NOTIFY makes commits wait for each other.
 *
 * I1  Nothing depends on a hint. The daemon sends itself one now and then: if none comes back, all poll more often.
 * I2  A daemon sends `events` only for sessions that another one watches, and gathers them for a moment first.
 */
import type { Hint, Hints } from '../sharing.ts'
import { Connection } from './connection.ts'
import { times } from './clock.ts'

const GATHER_MS = 10
const ECHO_MS = 20_000 // between two hints to ourselves
const ECHO_WAIT_MS = 2_000
const WATCH_MS = 20_000 // between two announcements of what is watched
const WATCHED_MS = 60_000 // for how long one is remembered
const IDS_MAX = 150 // a payload has 8,000 bytes

export class PgHints implements Hints {
  readonly #connection: Connection
  readonly #me: string
  readonly #listeners = new Set<(hint: Hint) => void>()
  /** How many readers here watch a session. */
  readonly #watching = new Map<string, number>()
  /** Until when other daemons watch a session. */
  readonly #watched = new Map<string, number>()
  readonly #gathered = new Set<string>()
  readonly #timers: readonly NodeJS.Timeout[]
  #gathering: NodeJS.Timeout | undefined
  #again: NodeJS.Timeout | undefined
  #isUp = false
  #isListening = false
  #isClosed = false
  #lost = 0
  /** Hints of ours that came back. */
  #heard = 0

  constructor(url: string, me: string) {
    this.#me = me
    this.#connection = new Connection({
      url,
      waitMs: 5_000,
      onNotification: (payload) => this.#hear(payload),
      onLost: () => this.#fall(),
    })
    this.#timers = [setInterval(() => this.#echo(), ECHO_MS), setInterval(() => this.#announce(), WATCH_MS)]
    for (const timer of this.#timers) timer.unref()
    this.#echo()
  }

  get isUp(): boolean {
    return this.#isUp
  }

  /** How often they were found to be down. */
  get lost(): number {
    return this.#lost
  }

  send(hint: Hint): void {
    void this.#notify(hint)
  }

  on(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  watch(sessionId: string): () => void {
    const readers = this.#watching.get(sessionId) ?? 0
    this.#watching.set(sessionId, readers + 1)
    if (readers === 0) void this.#notify({ kind: 'watch', sessionIds: [sessionId] })
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      const left = (this.#watching.get(sessionId) ?? 1) - 1
      if (left > 0) this.#watching.set(sessionId, left)
      else this.#watching.delete(sessionId)
    }
  }

  /** I2: these sessions have new events. */
  moved(sessionIds: Iterable<string>): void {
    if (this.#watched.size === 0) return
    for (const id of sessionIds) if (this.#watched.has(id)) this.#gathered.add(id)
    if (this.#gathered.size > 0) this.#gathering ??= setTimeout(() => this.#sendGathered(), GATHER_MS)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
    clearTimeout(this.#gathering)
    await this.#connection.end()
  }

  // ---- details, in the order they are used above ----

  #sendGathered(): void {
    this.#gathering = undefined
    const sessionIds = [...this.#gathered]
    this.#gathered.clear()
    for (let at = 0; at < sessionIds.length; at += IDS_MAX) {
      void this.#notify({ kind: 'events', sessionIds: sessionIds.slice(at, at + IDS_MAX) })
    }
  }

  /** True if it was sent. */
  async #notify(hint: Hint | Inner): Promise<boolean> {
    if (this.#isClosed) return false
    try {
      if (!this.#isListening) await this.#listen()
      await this.#connection.query(NOTIFY, [JSON.stringify({ from: this.#me, hint })])
      return true
    } catch {
      this.#fall()
      return false
    }
  }

  async #listen(): Promise<void> {
    await this.#connection.query('LISTEN breakfall')
    this.#isListening = true
    await this.#connection.query(NOTIFY, [JSON.stringify({ from: this.#me, hint: { kind: 'who' } })])
    this.#announce()
  }

  #fall(): void {
    this.#isListening = false
    if (this.#isUp) this.#lost += 1
    this.#isUp = false
    if (this.#isClosed) return
    this.#again ??= setTimeout(() => this.#echo(), ECHO_WAIT_MS).unref() // one, however many hints were not sent
  }

  #echo(): void {
    clearTimeout(this.#again)
    this.#again = undefined
    const heard = this.#heard
    void this.#notify({ kind: 'echo' }).then((isSent) => {
      if (!isSent || this.#heard > heard) return // PostgreSQL delivers our own hint before it answers
      const timer = setTimeout(() => this.#fall(), ECHO_WAIT_MS)
      timer.unref()
      this.#echoes.push(timer)
    })
  }

  readonly #echoes: NodeJS.Timeout[] = []

  #announce(): void {
    const sessionIds = [...this.#watching.keys()]
    for (let at = 0; at < sessionIds.length; at += IDS_MAX) {
      void this.#notify({ kind: 'watch', sessionIds: sessionIds.slice(at, at + IDS_MAX) })
    }
    const now = times().monotonic
    for (const [id, until] of this.#watched) if (until < now) this.#watched.delete(id)
  }

  #hear(payload: string): void {
    const message = parsed(payload)
    if (message === undefined) return
    const { from, hint } = message
    if (from === this.#me) {
      if (hint.kind !== 'echo') return
      this.#isUp = true
      this.#heard += 1
      for (const timer of this.#echoes.splice(0)) clearTimeout(timer)
      return
    }
    if (hint.kind === 'echo') return
    if (hint.kind === 'who') return this.#announce()
    if (hint.kind === 'watch') {
      const until = times().monotonic + WATCHED_MS
      for (const id of hint.sessionIds) this.#watched.set(id, until)
      return
    }
    for (const listener of this.#listeners) listener(hint)
  }
}

// ---- details ----

/** Among the hints' senders. */
type Inner =
  | { readonly kind: 'echo' }
  | { readonly kind: 'who' }
  | { readonly kind: 'watch'; readonly sessionIds: readonly string[] }

type Message = { readonly from: string; readonly hint: Hint | Inner }

const NOTIFY = "SELECT pg_notify('breakfall', $1)"

function parsed(payload: string): Message | undefined {
  try {
    const message: Message = JSON.parse(payload)
    return typeof message.hint.kind === 'string' ? message : undefined
  } catch {
    return undefined // of another program on the same channel
  }
}
