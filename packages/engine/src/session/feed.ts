/**
 * The committed events of one session, for its readers. Readers pull by seq: from memory if they are close to the head, otherwise
 * from the store. Nothing is queued per reader, so a slow reader costs the others nothing, and a session without readers keeps no
 * events in memory.
 *
 * I1  Only committed events are in here: no event leaves the daemon before it is in the journal.
 * I2  A reader gets each seq once and in order, whether from the store or from memory.
 * I3  A large event is in memory once, however many readers are receiving it: a hundred readers that stopped in the middle of it
 *     share one copy.
 */
import { encodeSse, formatCursor } from '@breakfall/wire'
import type { Journal, StoredEvent } from '../store/store.ts'

const RECENT_EVENTS_MAX = 512
const RECENT_CHARS_MAX = 1024 * 1024
const PAGE_EVENTS = 128
const PAGE_CHARS_MAX = 256 * 1024 // the most that a reader that has stopped reading holds in our memory
const LARGE_CHARS = 16 * 1024

/** Why a feed ends whose last events a failover of the store lost. */
export const REWOUND = 'journal_rewound'

/** An event as readers get it. Encoded once: a thousand readers share the same bytes, however large the event is. */
export class FedEvent {
  readonly seq: number
  readonly body: string
  readonly #head: { readonly event: string; readonly id: string }
  #sse: Buffer | undefined
  #frame: Buffer | undefined

  constructor({ seq, type, body }: StoredEvent, journal: string) {
    this.seq = seq
    this.body = body
    this.#head = { event: type, id: formatCursor(journal, seq) }
  }

  get sse(): Buffer {
    return (this.#sse ??= Buffer.from(encodeSse({ ...this.#head, data: this.body })))
  }

  /** As a WebSocket frame. */
  get frame(): Buffer {
    return (this.#frame ??= Buffer.from(`{"event":${this.body}}`))
  }
}

type ReaderChanges = { readonly onFirstReader?: () => void; readonly onLastReader?: () => void }

export class Feed {
  readonly #store: Pick<Journal, 'read'>
  readonly #sessionId: string
  readonly journal: string
  readonly #on: ReaderChanges
  readonly #recent: FedEvent[] = []
  #recentChars = 0
  /** Large events that readers are receiving, by seq, with the number of those readers. */
  readonly #given = new Map<number, { readonly event: FedEvent; readers: number }>()
  readonly #reading = new Map<number, Promise<readonly FedEvent[]>>()
  #head: number
  #published = 0
  #wakeups = new Set<() => void>()
  #wakes = 0
  /** Readers that wait for events which a failover of the store lost. Their owner may append them again, under the same seqs. */
  #starving = 0
  #ended: string | undefined

  constructor(
    store: Pick<Journal, 'read'>,
    session: { id: string; journal: string; lastSeq: number },
    on: ReaderChanges = {},
  ) {
    this.#on = on
    this.#store = store
    this.#sessionId = session.id
    this.journal = session.journal
    this.#head = session.lastSeq
  }

  get head(): number {
    return this.#head
  }

  get readers(): number {
    return this.#wakeups.size
  }

  /** Characters published so far: its growth shows how far a reader lags. */
  get published(): number {
    return this.#published
  }

  /** Why no more events will come, if that is so. */
  get ended(): string | undefined {
    return this.#ended
  }

  publish(events: readonly StoredEvent[]): void {
    const isRead = this.#wakeups.size > 0
    for (const event of events) {
      this.#published += event.body.length
      this.#head = event.seq
      if (!isRead) continue
      if ((this.#recent.at(-1)?.seq ?? event.seq - 1) !== event.seq - 1) this.#forget() // I2
      this.#recent.push(new FedEvent(event, this.journal))
      this.#recentChars += event.body.length
    }
    while (
      this.#recent.length > 1 &&
      (this.#recent.length > RECENT_EVENTS_MAX || this.#recentChars > RECENT_CHARS_MAX)
    ) {
      this.#recentChars -= this.#recent.shift()?.body.length ?? 0
    }
    this.#wake()
  }

  /** The journal reaches this far, as the store says: another owner writes it. */
  advanceTo(head: number): void {
    if (head <= this.#head && this.#starving === 0) return
    this.#head = Math.max(this.#head, head)
    this.#wake()
  }

  /** Ends every reader once it has read everything. */
  end(reason: string): void {
    this.#ended ??= reason
    this.#wake()
  }

  /** Events after a seq, page by page, until the signal aborts or the feed ends. */
  async *tail(after: number, signal: AbortSignal): AsyncGenerator<readonly FedEvent[], void, undefined> {
    let seq = after
    let notify = (): void => undefined
    const wake = (): void => notify()
    const woken = (): Promise<void> =>
      new Promise((resolve) => {
        notify = resolve
      })
    this.#wakeups.add(wake)
    if (this.#wakeups.size === 1) this.#on.onFirstReader?.()
    signal.addEventListener('abort', wake)
    try {
      while (!signal.aborted) {
        if (seq < this.#head) {
          const wakes = this.#wakes
          const page = this.#hold(await this.#page(seq))
          const last = page.at(-1)
          if (last === undefined) {
            if (this.#ended !== undefined) return // a failover of the store lost them
            this.#starving += 1
            if (this.#wakes === wakes && !signal.aborted) await woken() // a wake during the read is not lost
            this.#starving -= 1
            continue
          }
          seq = last.seq
          try {
            yield page
          } finally {
            this.#release(page)
          }
        } else if (this.#ended === undefined) {
          await woken()
        } else return
      }
    } finally {
      this.#wakeups.delete(wake)
      signal.removeEventListener('abort', wake)
      if (this.#wakeups.size === 0) {
        this.#forget()
        this.#on.onLastReader?.()
      }
    }
  }

  async #page(after: number): Promise<readonly FedEvent[]> {
    const given = this.#given.get(after + 1)
    if (given !== undefined) return [given.event] // I3
    const first = this.#recent[0]?.seq
    const last = this.#recent.at(-1)?.seq ?? 0
    if (first !== undefined && after + 1 >= first && after < last) {
      const from = after + 1 - first // I2: seqs have no gaps, so the index is arithmetic
      return bounded(this.#recent.slice(from, from + PAGE_EVENTS))
    }
    const reading = this.#reading.get(after) ?? this.#read(after).finally(() => this.#reading.delete(after))
    this.#reading.set(after, reading)
    return reading
  }

  async #read(after: number): Promise<readonly FedEvent[]> {
    const stored = await this.#store.read(this.#sessionId, after, PAGE_EVENTS, PAGE_CHARS_MAX)
    return stored.filter((event) => event.seq <= this.#head).map((event) => new FedEvent(event, this.journal))
  }

  /** Replaces large events by the copy that other readers are receiving, too. */
  #hold(page: readonly FedEvent[]): readonly FedEvent[] {
    return page.map((event) => {
      if (event.body.length < LARGE_CHARS) return event
      const given = this.#given.get(event.seq) ?? { event, readers: 0 }
      this.#given.set(event.seq, given)
      given.readers += 1
      return given.event // I3
    })
  }

  #release(page: readonly FedEvent[]): void {
    for (const { seq } of page) {
      const given = this.#given.get(seq)
      if (given === undefined) continue
      given.readers -= 1
      if (given.readers === 0) this.#given.delete(seq)
    }
  }

  #forget(): void {
    this.#recent.length = 0
    this.#recentChars = 0
  }

  #wake(): void {
    this.#wakes += 1
    for (const wake of this.#wakeups) wake()
  }
}

/** The first events that fit into a page, at least one. */
function bounded(events: readonly FedEvent[]): readonly FedEvent[] {
  let chars = 0
  const tooMany = events.findIndex((event, index) => {
    chars += event.body.length
    return index > 0 && chars > PAGE_CHARS_MAX
  })
  return tooMany === -1 ? events : events.slice(0, tooMany)
}
