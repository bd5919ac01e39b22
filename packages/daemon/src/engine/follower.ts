/**
 * Moves the feeds of sessions that other daemons own: asks the store how far their journals reach, when a hint says that one has
 * moved, and now and then anyway. Does nothing if no one shares the store.
 *
 * I1  Hints only make it faster: without any, a reader is at most one poll behind.
 */
import type { Store } from '../store/store.ts'
import type { Feed } from './feed.ts'

export class Follower {
  readonly #store: Store
  readonly #followed = new Map<string, { readonly feed: Feed; readonly unwatch: () => void }>()
  readonly #unlisten: () => void
  #timer: NodeJS.Timeout | undefined
  readonly #moved = new Set<string>()
  #isAsking = false
  #isClosed = false

  constructor(store: Store) {
    this.#store = store
    this.#unlisten = store.hints.on((hint) => {
      if (hint.kind === 'events') this.#ask(hint.sessionIds)
    })
  }

  add(id: string, feed: Feed): void {
    if (!this.#store.isShared || this.#isClosed || this.#followed.get(id)?.feed === feed) return
    this.remove(id)
    this.#followed.set(id, { feed, unwatch: this.#store.hints.watch(id) })
    this.#ask([id]) // it may have moved since its row was read
    this.#schedule()
  }

  remove(id: string): void {
    this.#followed.get(id)?.unwatch()
    this.#followed.delete(id)
  }

  close(): void {
    this.#isClosed = true
    this.#unlisten()
    clearTimeout(this.#timer)
    for (const id of this.#followed.keys()) this.remove(id)
  }

  // ---- details ----

  /** I1 */
  #schedule(): void {
    if (this.#timer !== undefined || this.#isClosed || this.#followed.size === 0) return
    const everyMs = this.#store.hints.isUp ? POLL_MS * (0.75 + Math.random() / 2) : POLL_MS_WITHOUT_HINTS
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#ask([...this.#followed.keys()])
      this.#schedule()
    }, everyMs)
    this.#timer.unref()
  }

  /** One question at a time; what moves meanwhile is part of the next one. */
  #ask(ids: readonly string[]): void {
    for (const id of ids) if (this.#followed.has(id)) this.#moved.add(id)
    if (this.#moved.size === 0 || this.#isClosed || this.#isAsking) return
    this.#isAsking = true
    void this.#askStore().finally(() => {
      this.#isAsking = false
      this.#ask([])
    })
  }

  async #askStore(): Promise<void> {
    const ids = [...this.#moved]
    this.#moved.clear()
    try {
      const heads = new Map((await this.#store.heads(ids)).map((head) => [head.sessionId, head]))
      for (const id of ids) {
        const feed = this.#followed.get(id)?.feed
        const head = heads.get(id)
        if (feed === undefined) continue
        if (head === undefined) feed.end('session_deleted')
        else if (head.journal !== feed.journal) feed.end('journal_rewound')
        else feed.advanceTo(head.lastSeq)
      }
    } catch {
      // The store is away. Readers wait; the next poll asks again.
    }
  }
}

const POLL_MS = 750
const POLL_MS_WITHOUT_HINTS = 100
