/**
 * Tells everyone who watches this daemon which sessions changed.
 *
 * I1  A watcher gets one snapshot, then every later change. It has no cursor: after a lost connection the next snapshot is the truth.
 * I2  At most four changes a second per session; the last one wins. A slow watcher costs one pending change per session.
 * I3  Without a watcher nothing is read and no timer runs.
 * I4  A beat shows that the daemon lives: a page sees no ping frames, so a stopped daemon would look alive.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Session, System, WatchChange, WatchSnapshot } from '@breakfall/wire'
import type { Clock, Timer } from '../clock.ts'
import type { Overview } from './session-overview.ts'

export type HubParts = {
  readonly clock: Pick<Clock, 'now' | 'after' | 'every'>
  readonly bootId: string
  readonly overview: () => Promise<Overview>
  /** Undefined: it is gone. */
  readonly session: (id: string) => Promise<Session | undefined>
  readonly counts: () => Promise<WatchSnapshot['counts']>
  readonly system: () => Promise<System>
  /** Sessions that another daemon may have changed since then. */
  readonly changedSince: ((since: string) => Promise<readonly string[]>) | undefined
  readonly gateway: (() => WatchChange['gateway']) | undefined
  readonly onError: (error: unknown) => void
}

/** `send` resolves when the watcher has taken the changes: until then, newer ones replace those that wait. */
export type Watcher = { readonly send: (changes: readonly WatchChange[]) => Promise<void> }

const FLUSH_MS = 250
const BEAT_MS = 5_000
const COUNTS_MS = 1_000
/** Counting takes at most this share of the time, however many sessions there are. */
const COUNTS_SHARE = 20

export class WatchHub {
  readonly #parts: HubParts
  readonly #outboxes = new Set<Outbox>()
  readonly #changed = new Set<string>()
  #flushing: Timer | undefined
  #beating: Timer | undefined
  #counting: Timer | undefined
  #countsDueAt = 0
  #lastSystem: unknown
  #lastGateway: unknown
  #sweptAt = ''

  constructor(parts: HubParts) {
    this.#parts = parts
  }

  get watchers(): number {
    return this.#outboxes.size
  }

  /** The session changed, was created or was deleted. */
  changed(sessionId: string): void {
    if (this.#outboxes.size === 0) return // I3
    this.#changed.add(sessionId)
    this.#flushLater()
  }

  /** Sends nothing before `start` is called with the snapshot on its way. The returned function ends the watch. */
  async watch(watcher: Watcher): Promise<{ snapshot: WatchSnapshot; start: () => void; end: () => void }> {
    const outbox = new Outbox(watcher)
    this.#outboxes.add(outbox) // first: what changes from now on is not in the snapshot for certain (I1)
    this.#beating ??= this.#parts.clock.every(BEAT_MS, () => void this.#guarded(() => this.#beat())).unref()
    const end = (): void => this.#end(outbox)
    try {
      const [overview, system] = await Promise.all([this.#parts.overview(), this.#parts.system()])
      const snapshot = { bootId: this.#parts.bootId, at: this.#at(), ...overview, system }
      return { snapshot, start: () => outbox.start(), end }
    } catch (error) {
      end()
      throw error
    }
  }

  close(): void {
    this.#beating?.cancel()
    this.#flushing?.cancel()
    this.#counting?.cancel()
    this.#outboxes.clear()
  }

  // ---- details, in the order they are used above ----

  #flushLater(): void {
    const flush = (): void => {
      this.#flushing = undefined
      void this.#guarded(() => this.#flush())
    }
    this.#flushing ??= this.#parts.clock.after(FLUSH_MS, flush).unref()
  }

  async #flush(): Promise<void> {
    const ids = [...this.#changed]
    this.#changed.clear()
    for (const id of ids) {
      const session = await this.#parts.session(id)
      this.#post(id, session === undefined ? { deleted: id } : { session })
    }
    await this.#count()
  }

  async #count(): Promise<void> {
    const from = this.#parts.clock.now()
    if (from < this.#countsDueAt) return this.#countLater(this.#countsDueAt - from)
    this.#post('counts', { counts: await this.#parts.counts() })
    const took = this.#parts.clock.now() - from
    this.#countsDueAt = from + Math.max(COUNTS_MS, took * COUNTS_SHARE)
    await this.#postSystem()
  }

  #countLater(ms: number): void {
    this.#counting?.cancel()
    this.#counting = this.#parts.clock.after(ms, () => void this.#guarded(() => this.#count())).unref()
  }

  /** I4 */
  async #beat(): Promise<void> {
    const at = this.#at()
    this.#post('at', { at })
    await this.#postSystem()
    this.#postGateway()
    const { changedSince } = this.#parts
    if (changedSince !== undefined && this.#sweptAt !== '')
      for (const id of await changedSince(this.#sweptAt)) this.changed(id)
    this.#sweptAt = at
  }

  async #postSystem(): Promise<void> {
    const system = await this.#parts.system()
    const { now: _, ...rest } = system
    if (isDeepStrictEqual(rest, this.#lastSystem)) return
    this.#lastSystem = rest
    this.#post('system', { system })
  }

  #postGateway(): void {
    const gateway = this.#parts.gateway?.()
    if (gateway === undefined || isDeepStrictEqual(gateway, this.#lastGateway)) return
    this.#lastGateway = gateway
    this.#post('gateway', { gateway })
  }

  #post(key: string, change: WatchChange): void {
    for (const outbox of this.#outboxes) outbox.post(key, change)
  }

  #end(outbox: Outbox): void {
    this.#outboxes.delete(outbox)
    if (this.#outboxes.size > 0) return
    this.#beating?.cancel()
    this.#beating = undefined
  }

  #at(): string {
    return new Date(this.#parts.clock.now()).toISOString()
  }

  /** A journal that cannot be read is reported by those who need it; the watch continues. */
  async #guarded(act: () => Promise<void>): Promise<void> {
    try {
      if (this.#outboxes.size > 0) await act()
    } catch (error) {
      this.#parts.onError(error)
    }
  }
}

/** Changes that one watcher has not taken yet, the newest per key (I2). */
class Outbox {
  readonly #watcher: Watcher
  readonly #waiting = new Map<string, WatchChange>()
  #isFree = false

  constructor(watcher: Watcher) {
    this.#watcher = watcher
  }

  start(): void {
    this.#isFree = true
    this.#pump()
  }

  post(key: string, change: WatchChange): void {
    this.#waiting.delete(key) // the newest comes last
    this.#waiting.set(key, change)
    this.#pump()
  }

  #pump(): void {
    if (!this.#isFree || this.#waiting.size === 0) return
    const changes = [...this.#waiting.values()]
    this.#waiting.clear()
    this.#isFree = false
    void this.#watcher.send(changes).then(() => {
      this.#isFree = true
      this.#pump()
    })
  }
}
