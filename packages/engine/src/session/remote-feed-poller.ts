/**
 * Moves the feeds of sessions that other daemons own: asks the store how far their journals reach, when a hint says that one has
 * moved, and now and then anyway. Does nothing if no one shares the store.
 *
 * I1  Hints only make it faster: without any, a reader is at most one poll behind.
 */
import type { Clock } from '../clock.ts'
import type { Store } from '../store/store.ts'
import { type Feed, REWOUND } from './feed.ts'
import { Poll } from '../poll.ts'

export class RemoteFeedPoller {
  readonly #store: Store
  readonly #followed = new Map<string, { readonly feed: Feed; readonly unwatch: () => void }>()
  readonly #moved = new Set<string>()
  readonly #unlisten: () => void
  readonly #asking: Poll
  readonly #polling: Poll

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#asking = new Poll(
      () => POLL_MS,
      () => this.#askStore(),
      clock,
    )
    this.#polling = new Poll(
      () => (store.hints.isUp ? POLL_MS * (0.75 + clock.dice() / 2) : POLL_MS_WITHOUT_HINTS), // I1
      () => Promise.resolve(this.#ask(this.#followed.keys())),
      clock,
    )
    this.#unlisten = store.hints.on((hint) => {
      if (hint.kind === 'events') this.#ask(hint.sessionIds)
    })
  }

  add(id: string, feed: Feed): void {
    if (this.#store.lease.isEndless || this.#followed.get(id)?.feed === feed) return
    this.remove(id)
    this.#followed.set(id, { feed, unwatch: this.#store.hints.watch(id) })
    this.#ask([id]) // it may have moved since its row was read
    this.#polling.start()
  }

  remove(id: string): void {
    this.#followed.get(id)?.unwatch()
    this.#followed.delete(id)
    if (this.#followed.size === 0) this.#polling.stop()
  }

  async close(): Promise<void> {
    this.#unlisten()
    for (const id of this.#followed.keys()) this.remove(id)
    await Promise.all([this.#asking.close(), this.#polling.close()])
  }

  // ---- details ----

  #ask(ids: Iterable<string>): void {
    for (const id of ids) if (this.#followed.has(id)) this.#moved.add(id)
    if (this.#moved.size > 0) this.#asking.now()
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
        else if (head.journal !== feed.journal) feed.end(REWOUND)
        else feed.advanceTo(head.lastSeq)
      }
    } catch {
      // The store is away. Readers wait; the next poll asks again.
    }
  }
}

const POLL_MS = 750
const POLL_MS_WITHOUT_HINTS = 100
