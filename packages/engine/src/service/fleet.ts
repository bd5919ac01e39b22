/**
 * What a daemon does besides if it shares its store: claims what is due, carries out what others ask of its sessions, and stands
 * still or gives everything up when its lease says so.
 */
import { Fault } from '@breakfall/faults'
import type { Engine } from '../loop/engine.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import type { SessionParts } from '../session/session-parts.ts'
import type { Sessions } from './sessions.ts'
import { WorkClaims } from './work-claims.ts'
import type { LeaseChange } from '../store/sharing.ts'

type FleetParts = {
  readonly base: SessionParts
  readonly lifecycle: Lifecycle
  readonly engine: Engine
  readonly sessions: Sessions
  readonly shutdownMs: number
  /** Running turns have this long to end their step. */
  readonly drainMs: number
}

export class Fleet {
  readonly #parts: FleetParts
  readonly #claims: WorkClaims
  readonly #unlisten: () => void

  constructor(parts: FleetParts) {
    const { engine, lifecycle, sessions } = parts
    const { store, gate, clock, observer } = parts.base
    const { commands, loader } = sessions
    this.#parts = parts
    this.#claims = new WorkClaims({
      store,
      gate,
      clock,
      log: observer.log,
      lifecycle,
      engine,
      loader,
      first: (session) => (session.row.asked > session.row.seen ? commands.empty(session) : Promise.resolve()),
      remove: (row) => commands.remove(row),
      placesMax: PLACES_MAX,
    })
    this.#unlisten = store.lease.on((change) => this.#changed(change))
  }

  async start(url: string, configHash: string): Promise<void> {
    const { base, sessions } = this.#parts
    const { lease } = base.store
    if (lease.isEndless) return
    await lease.announce({ url, configHash, places: PLACES_MAX })
    sessions.commands.start()
    this.#claims.start()
  }

  /** Something may be due now. */
  lookForWork(): void {
    this.#claims.now()
  }

  /** Claims nothing more, and lets every turn come to a stop. */
  async handOver(): Promise<void> {
    const { base, lifecycle, engine, sessions, drainMs } = this.#parts
    lifecycle.drain()
    if (drainMs === 0) lifecycle.close()
    await this.#leave()
    if (drainMs > 0) await base.clock.within(engine.allSettled(), drainMs) // turns come to the end of their step
    lifecycle.close()
    for (const session of sessions.loader.all)
      session.interrupt(new Fault('cancelled', { facts: { name: 'shutdown' } }))
  }

  /** Claims nothing more. */
  async #leave(): Promise<void> {
    const { store, clock } = this.#parts.base
    const drained = store.lease.drain().catch(() => undefined) // away: nothing can be claimed
    await clock.within(Promise.all([drained, this.#claims.close()]), LEAVE_MS)
  }

  /** Everything is handed over: others may continue it now. */
  async close(): Promise<void> {
    const { base, sessions } = this.#parts
    this.#unlisten()
    await base.clock.within(Promise.all([sessions.commands.close(), this.#claims.close()]), LEAVE_MS)
    base.store.hints.send({ kind: 'work' })
  }

  #changed(change: LeaseChange): void {
    const { base, sessions } = this.#parts
    const { log } = base.observer
    if (change === 'suspend') log.warn({}, 'the store does not answer: no turn continues until it does')
    if (change === 'resume') log.info({}, 'the store answers again')
    if (change === 'lost') {
      log.error({}, 'the lease ran out: other daemons continue the turns of this one')
      sessions.loader.loseAll()
    }
    if (change === 'drain') void this.#drain()
  }

  /** A person asked for it. The process keeps running: readers move to another daemon, and readers that come back are served. */
  async #drain(): Promise<void> {
    const { base, engine, shutdownMs } = this.#parts
    await this.handOver()
    await base.clock.within(engine.allSettled(), shutdownMs)
    base.feeds.endAll('draining')
  }
}

const LEAVE_MS = 2_000 // a database that does not answer by then is away; the lease says the rest
const PLACES_MAX = 1_000 // about what one core carries, with room to spare
