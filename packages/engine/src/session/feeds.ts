/**
 * The feeds of the sessions that this daemon owns or that someone reads here. Reading claims nothing: a feed moves when the
 * session's owner commits, and outlives any change of owner.
 *
 * I1  A session has one feed here, whoever owns it: readers stay when the owner changes.
 * I2  A feed that no one reads, of a session that this daemon does not own, is dropped.
 * I3  Only the newest claim gives a session up: an earlier one may end later.
 */
import type { Clock } from '../clock.ts'
import type { Store } from '../store/store.ts'
import { Feed, REWOUND } from './feed.ts'
import { RemoteFeedPoller } from './remote-feed-poller.ts'

type Journal = { readonly id: string; readonly journal: string; readonly lastSeq: number }
type Claim = Journal & { readonly epoch: number }

export class Feeds {
  readonly #store: Store
  readonly #feeds = new Map<string, Feed>()
  /** The epochs of the sessions that this daemon owns. */
  readonly #owned = new Map<string, number>()
  readonly #poller: RemoteFeedPoller

  constructor(store: Store, clock: Clock) {
    this.#store = store
    this.#poller = new RemoteFeedPoller(store, clock)
  }

  /** The feed of a session, for readers. */
  of(row: Journal): Feed {
    const known = this.#feeds.get(row.id)
    if (known !== undefined && known.ended === undefined && known.journal === row.journal) {
      known.advanceTo(row.lastSeq)
      return known // I1
    }
    known?.end(REWOUND)
    const feed: Feed = new Feed(this.#store, row, {
      onFirstReader: () => this.#update(row.id, feed),
      onLastReader: () => this.#update(row.id, feed),
    })
    this.#feeds.set(row.id, feed)
    return feed
  }

  get(id: string): Feed | undefined {
    return this.#feeds.get(id)
  }

  /** From now on this daemon publishes the session's events itself. */
  own(row: Claim): Feed {
    this.#owned.set(row.id, row.epoch)
    const feed = this.of(row)
    this.#update(row.id, feed)
    return feed
  }

  /** From now on another daemon may own it: readers get what that one commits. */
  release({ id, epoch }: Pick<Claim, 'id' | 'epoch'>): void {
    if (epoch < (this.#owned.get(id) ?? 0)) return // I3
    this.#owned.delete(id)
    const feed = this.#feeds.get(id)
    if (feed !== undefined) this.#update(id, feed)
  }

  /** No more events will come. */
  end(id: string, reason: string): void {
    this.#owned.delete(id)
    this.#feeds.get(id)?.end(reason)
    this.#poller.remove(id)
    this.#feeds.delete(id)
  }

  endAll(reason: string): void {
    for (const id of this.#feeds.keys()) this.end(id, reason)
  }

  async close(): Promise<void> {
    await this.#poller.close()
  }

  #update(id: string, feed: Feed): void {
    const isRead = feed.readers > 0
    if (isRead && !this.#feeds.has(id)) this.#feeds.set(id, feed) // it was dropped before this reader started to read
    if (this.#feeds.get(id) !== feed) return
    if (isRead && !this.#owned.has(id)) this.#poller.add(id, feed)
    else this.#poller.remove(id)
    if (!isRead && !this.#owned.has(id)) this.#feeds.delete(id) // I2
  }
}
