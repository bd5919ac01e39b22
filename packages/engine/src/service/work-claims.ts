/**
 * Claims sessions of the shared store that are due and have no owner: turns that a dead daemon left, that were handed over, that
 * wait no longer, and sessions with open commands.
 *
 * I1  No stampede: a daemon claims in portions, and no more than its share of all the work.
 * I4  A session that is ours in the store is worked on here: one whose claim was not answered, or that could not be loaded, is
 *     looked for now and then.
 * I3  A session that takes long, because the box of a deleted one is removed at a runner that is away, holds up no other.
 * I2  A turn that was taken over twice without progress is claimed alone, and nothing else is claimed until it gets on: if it
 *     crashes its daemon, it crashes no other turn.
 */
import type { Log } from '../log.ts'
import type { Clock } from '../clock.ts'
import type { SessionRow } from '../rows.ts'
import type { Store } from '../store/store.ts'
import type { Engine } from '../loop/engine.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { LeaseGate } from '../session/ownership.ts'
import type { SessionLoader } from './loader.ts'
import { Poll } from '../poll.ts'

type WorkParts = {
  readonly store: Store
  readonly gate: LeaseGate
  readonly clock: Clock
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly engine: Pick<Engine, 'driven'>
  readonly loader: Pick<SessionLoader, 'adopt' | 'isKnown' | 'own' | 'peek'>
  /** Done before a claimed session is driven. */
  readonly first: (session: OwnedSession) => Promise<void>
  readonly remove: (row: SessionRow) => Promise<void>
  readonly placesMax: number
}

export class WorkClaims {
  readonly #parts: WorkParts
  readonly #poll: Poll
  readonly #unlisten: () => void
  readonly #removing = new Set<string>()
  #suspect: OwnedSession | undefined
  #looks = 0

  constructor(parts: WorkParts) {
    this.#parts = parts
    const { store, clock } = parts
    this.#poll = new Poll(
      () => (store.hints.isUp ? POLL_MS : POLL_MS / 4) * (0.75 + clock.dice() / 2),
      () => this.#claim(),
      clock,
    )
    this.#unlisten = store.hints.on((hint) => {
      if (hint.kind === 'work') this.#poll.now()
    })
  }

  start(): void {
    this.#poll.start()
    this.#poll.now()
  }

  now(): void {
    this.#poll.now()
  }

  async close(): Promise<void> {
    this.#unlisten()
    await this.#poll.close()
  }

  // ---- details ----

  async #claim(): Promise<void> {
    const { clock, log } = this.#parts
    try {
      this.#looks += 1
      if (this.#looks % LOOKS_PER_SEARCH === 0 && this.#mayClaim()) await this.#continueForgotten()
      for (let rows = await this.#portion(); rows.length > 0; rows = await this.#portion())
        await clock.within(Promise.all(rows.map((row) => this.#adopt(row))), ADOPT_MS) // I3
    } catch (err) {
      log.debug({ err }, 'claiming work failed; trying again soon')
    }
  }

  async #portion(): Promise<readonly SessionRow[]> {
    const { store } = this.#parts
    const limit = Math.min(this.#room(), PORTION)
    if (limit <= 0 || !this.#mayClaim()) return []
    const rows = await store.claimWork({ limit })
    return rows.length > 0 ? rows : store.claimWork({ limit: 1, suspects: true }) // I2
  }

  #mayClaim(): boolean {
    const { lifecycle, gate } = this.#parts
    return !lifecycle.isClosing && gate.isOpen && !this.#hasSuspect()
  }

  /** I4: no claim is under way in here meanwhile, and those of requests are known to the loader. */
  async #continueForgotten(): Promise<void> {
    const { store, log, loader } = this.#parts
    for (const id of await store.heldSessions()) {
      if (loader.isKnown(id) || this.#removing.has(id)) continue
      log.warn({ sessionId: id }, 'a session of ours is not worked on: continuing it')
      await this.#continue(id).catch((err: unknown) =>
        log.error({ err, sessionId: id }, 'cannot continue a session of ours'),
      )
    }
  }

  async #continue(id: string): Promise<void> {
    const { store, loader } = this.#parts
    const session = await loader.own(id)
    if (session === 'owned') return
    if (session !== undefined) return this.#watch(session)
    const row = await store.claim(id) // it is being deleted
    if (row !== undefined && row !== 'owned' && row.isDeleting) await this.#remove(row)
  }

  /** I1: a daemon that has just joined takes what comes, and none takes everything. */
  #room(): number {
    const { store, engine, placesMax } = this.#parts
    const { live, held } = store.lease.fleet
    const share = (SHARE * held) / Math.max(live, 1) + SPARE
    return Math.floor(Math.min(placesMax, Math.max(share, SPARE)) - engine.driven)
  }

  #hasSuspect(): boolean {
    const suspect = this.#suspect
    if (suspect === undefined) return false
    const isOver = suspect.isLost || suspect.row.suspect < SUSPECT_MIN
    if (isOver) this.#suspect = undefined
    return !isOver
  }

  async #adopt(row: SessionRow): Promise<void> {
    const { log, loader, first } = this.#parts
    try {
      if (row.isDeleting) return await this.#remove(row)
      await loader.adopt(row, first)
      const session = loader.peek(row.id)
      if (session !== undefined) this.#watch(session)
    } catch (err) {
      log.error({ err, sessionId: row.id }, 'cannot continue a claimed session')
    }
  }

  /** I2 */
  #watch(session: OwnedSession): void {
    if (session.row.suspect >= SUSPECT_MIN) this.#suspect = session
  }

  async #remove(row: SessionRow): Promise<void> {
    this.#removing.add(row.id)
    try {
      await this.#parts.remove(row)
    } finally {
      this.#removing.delete(row.id)
    }
  }
}

const POLL_MS = 1_000
const LOOKS_PER_SEARCH = 5
const PORTION = 50
const ADOPT_MS = 2_000 // by then all others of the portion count in `engine.driven`
const SHARE = 1.25
const SPARE = 8
const SUSPECT_MIN = 2
