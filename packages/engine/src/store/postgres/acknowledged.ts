/**
 * What the database has acknowledged to this daemon: the last committed event of each journal, for an hour and across restarts, and the
 * appends of the last thirty seconds themselves. A failover to an asynchronous standby loses commits; with this, the daemon notices
 * the loss and can often repair it.
 *
 * I1  Noted after the commit, never before: what is in here was acknowledged.
 * I2  Memory is bounded: the oldest appends are dropped first. An incomplete tail is not used.
 */
import { Anchor } from '../anchor.ts'
import { chainHash } from '../chain.ts'
import type { Append } from '../store.ts'
import type { Hashed } from './append-sql.ts'
import { times } from './clock.ts'

export type JournalEnd = { readonly lastSeq: number; readonly hash: string; readonly epoch: number }

/** `at`: when it was last touched here. */
type Reached = { readonly id: string; lastSeq: number; hash: string; at: number }

/** What one commit wrote. */
type Noted = { readonly appends: readonly Hashed[]; readonly at: number; readonly size: number }

const KEPT_MS = 30_000 // a failover manager waits that long, and nothing is acknowledged meanwhile
const KEPT_BYTES_MAX = 32 * 1024 * 1024
const HEADS_MS = 3_600_000
const HEADS_LOOK_MS = 600_000

export class Acknowledged {
  readonly #anchor: Anchor
  readonly #now: () => number
  /** Oldest first. */
  readonly #recent: Noted[] = []
  /** How many at the front of `#recent` do not count any more. */
  #dropped = 0
  #size = 0
  /** Changed in place: the anchor writes a journal that moves often only as often as it writes at all. */
  readonly #heads = new Map<string, Reached>()
  #lookedAt: number
  #isClosed = false

  constructor(file: string, now = (): number => times().monotonic) {
    this.#anchor = new Anchor(file)
    this.#now = now
    this.#lookedAt = now()
    for (const [id, { seq, hash }] of this.#anchor.heads)
      this.#heads.set(id, { id, lastSeq: seq, hash, at: this.#lookedAt })
  }

  note(appends: readonly Hashed[]): void {
    const at = this.#now()
    let size = 0
    const moved: Reached[] = []
    for (const { append, head } of appends) {
      size += sizeOf(append)
      if (append.events.length > 0)
        moved.push(this.#reached(append.sessionId, append.after + append.events.length, head, at))
    }
    this.#recent.push({ appends, at, size })
    this.#size += size
    this.#anchored(moved)
    this.#dropOld(at)
  }

  /** A claim says that the journal reaches this far: that is committed, too. */
  saw(id: string, lastSeq: number, hash: string): void {
    if (lastSeq > 0) this.#anchored([this.#reached(id, lastSeq, hash, this.#now())])
  }

  forget(sessionId: string): void {
    if (this.#heads.delete(sessionId)) this.#anchor.note({ moved: [], deleted: [sessionId] })
  }

  /** How far each journal reached when it was last acknowledged here. */
  get heads(): ReadonlyMap<string, Readonly<Reached>> {
    return this.#heads
  }

  /** The last append that was acknowledged, if it is still known. */
  lastOf(sessionId: string): Hashed | undefined {
    return this.#appendsOf(sessionId).at(-1)
  }

  /** What has to be appended again to a journal that ends there. Undefined if the tail is not complete, or of another owner (I2). */
  tailAfter(sessionId: string, end: JournalEnd): readonly Hashed[] | undefined {
    const tail = this.#appendsOf(sessionId).filter(({ append }) => append.after >= end.lastSeq)
    const first = tail.find(({ append }) => append.events.length > 0)
    const [event] = first?.append.events ?? []
    if (first === undefined || event === undefined || first.append.after !== end.lastSeq) return undefined
    if (tail.some(({ append }) => append.epoch !== end.epoch)) return undefined
    const { seq, type, body } = event
    const follows = chainHash(end.hash, { seq, epoch: end.epoch, type, body }) === first.hashes[0]
    return follows ? tail : undefined
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#anchor.close()
  }

  // ---- details ----

  #reached(id: string, lastSeq: number, hash: string, at: number): Reached {
    const known = this.#heads.get(id) ?? { id, lastSeq, hash, at }
    this.#heads.set(id, known)
    known.lastSeq = lastSeq
    known.hash = hash
    known.at = at
    return known
  }

  #anchored(moved: readonly Reached[]): void {
    if (moved.length > 0 && !this.#isClosed) this.#anchor.note({ moved, deleted: [] })
  }

  #appendsOf(sessionId: string): readonly Hashed[] {
    const known = this.#recent.slice(this.#dropped).flatMap(({ appends }) => appends)
    return known.filter(({ append }) => append.sessionId === sessionId)
  }

  #dropOld(now: number): void {
    for (;;) {
      const oldest = this.#recent[this.#dropped]
      if (oldest === undefined || (now - oldest.at <= KEPT_MS && this.#size <= KEPT_BYTES_MAX)) break
      this.#size -= oldest.size
      this.#dropped += 1
    }
    if (this.#dropped > this.#recent.length / 2) {
      this.#recent.splice(0, this.#dropped) // I2: rarely, for it moves all the others
      this.#dropped = 0
    }
    if (now - this.#lookedAt < HEADS_LOOK_MS) return
    this.#lookedAt = now
    for (const [id, { at }] of this.#heads) if (now - at > HEADS_MS) this.forget(id)
  }
}

const ENTRY_BYTES = 200

/** About. */
const sizeOf = ({ events }: Append): number => events.reduce((sum, { body }) => sum + body.length, ENTRY_BYTES)
