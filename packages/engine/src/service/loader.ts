/**
 * Loads sessions into memory and evicts them again; recovers turns that an earlier process left unfinished.
 *
 * I1  A session is loaded once, however many callers ask for it at the same time.
 * I2  An unreadable journal is quarantined with the evidence; nothing else stops for it.
 * I3  A session in memory with an unfinished turn is being driven: a session that was lost to a bug or a lost journal is recovered by
 *     the next request for it, and that counts as a takeover.
 * I4  A loader that recovers only on request drives nothing else: what an earlier process left is only read until then.
 * I5  At a start, turns that were taken over before without progress come last: if one of them crashes the daemon every time,
 *     the others are under way by then.
 * I6  In scope `interrupted`, a turn that a wrong set-up parked is not woken by what changed while no daemon ran: only a person, or
 *     a change from now on, resumes it. Turns that wait for a time or a probe keep doing so.
 * I7  A session with work or in use is not evicted: a request would load it again beside itself, with separate locks.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { classify, Fault, faultFrom, isFault } from '@breakfall/faults'
import { isDaemonShutdown, questionOf, waitOf } from '@breakfall/wire/turn'
import { parseEvent } from '@breakfall/wire'
import { Mutex } from '@breakfall/faults/internal'
import type { EngineLimits, EngineOptions, RecoveryScope, UnfinishedTurn } from '../options.ts'
import type { SessionRow } from '../rows.ts'
import type { Store } from '../store/store.ts'
import { reduce } from '../turn/reduce.ts'
import { EMPTY_FOLD, type SessionFold } from '../turn/state.ts'
import type { Providers } from '../providers/providers.ts'
import { providerView } from '../turn/view.ts'
import type { Engine } from '../loop/engine.ts'
import type { Feed } from '../session/feed.ts'
import { OwnedSession, quarantinedFault } from '../session/owned-session.ts'
import type { SessionParts } from '../session/session-parts.ts'
import { settingsOf, type WaitPort } from '../loop/park.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import { recoverTurn } from '../loop/recover.ts'

const PAGE_EVENTS = 2_000
const PAGE_CHARS_MAX = 4 * 1024 * 1024
const TRIES_MAX = 3 // a session that is given up while a request waits is claimed again
const LOADS_AT_ONCE = 32
const CLAIMED_MAX = 100_000

/** What a reader of a session's events needs. */
export type SessionReading = { readonly id: string; readonly journal: string; readonly feed: Feed }

type LoaderParts = {
  readonly base: SessionParts
  readonly engine: Engine
  readonly waits: WaitPort
  readonly providers: Providers
  readonly lifecycle: Lifecycle
  readonly limits: Pick<EngineLimits, 'sessionsIdleMax' | 'idleCharsMax'>
  readonly stateDir: string
  readonly scope?: RecoveryScope | undefined
}

export class SessionLoader {
  readonly #parts: LoaderParts
  readonly #store: Store
  readonly #engine: Engine
  readonly #scope: RecoveryScope
  /** Least recently used first. */
  readonly #live = new Map<string, OwnedSession>()
  readonly #loading = new Map<string, Promise<OwnedSession | 'owned' | undefined>>()
  /** Sessions that a request has made ours, if we recover on request only. */
  readonly #requested = new Set<string>()
  readonly #recovering = new Mutex()

  constructor(parts: LoaderParts) {
    const { scope = 'all', base, engine } = parts
    this.#scope = scope
    this.#parts = parts
    this.#store = base.store
    this.#engine = engine
    engine.rested.add((session) => this.#restSoon(session))
  }

  get all(): Iterable<OwnedSession> {
    return [...this.#live.values()]
  }

  get count(): number {
    return this.#live.size
  }

  /** The session if it is in memory. */
  peek(id: string): OwnedSession | undefined {
    const session = this.#live.get(id)
    if (session === undefined || session.isLost) return undefined
    this.#live.delete(id) // reinserted as the most recently used
    this.#live.set(id, session)
    return session
  }

  /** What a reader needs. Claims nothing. */
  async view(id: string): Promise<SessionReading | undefined> {
    const live = this.peek(id)
    if (live !== undefined) return { id, journal: live.row.journal, feed: live.feed }
    const row = await this.#store.getSession(id)
    if (row === undefined) return undefined
    if (row.quarantined !== null) throw faultFrom(row.quarantined)
    if (row.state !== 'idle') this.#recoverLost(id)
    return { id, journal: row.journal, feed: this.#parts.base.feeds.of(row) }
  }

  /** The session in memory, with the right to write it. `owned`: another daemon has that right. */
  async own(id: string): Promise<OwnedSession | 'owned' | undefined> {
    const live = this.peek(id)
    if (live !== undefined) return live
    const loading = this.#loading.get(id) ?? this.#load(id).finally(() => this.#loading.delete(id)) // I1
    this.#loading.set(id, loading)
    return loading
  }

  /** Does something with a session that this daemon owns, or becomes the owner of. It is not given up meanwhile. */
  async use<T>(id: string, work: (session: OwnedSession) => Promise<T>): Promise<T | 'owned' | undefined> {
    for (let tries = 1; ; tries += 1) {
      const session = await this.#held(id)
      if (session === undefined || session === 'owned') return session
      try {
        return await work(session)
      } catch (thrown) {
        const isGivenUp = session.isLost && isFault(thrown) && thrown.category === 'lease_lost'
        if (!isGivenUp) throw thrown
        if (tries === TRIES_MAX) throw new Fault('journal_unreachable', { boundary: 'journal', cause: thrown }) // it may work later
      } finally {
        session.endUse()
        await this.rest(session)
      }
    }
  }

  /** Counts as one more use, without a moment in which the session is in memory and could be evicted (I7). */
  async #held(id: string): Promise<OwnedSession | 'owned' | undefined> {
    const session = this.peek(id) ?? (await this.own(id)) // a session that was just loaded is in use until this continues
    if (session instanceof OwnedSession) session.beginUse()
    return session
  }

  /** Gives a session up that is neither worked on nor used, and forgets one that was given up. */
  async rest(session: OwnedSession): Promise<void> {
    try {
      if (!session.isInUse && !this.#engine.isDriving(session)) await session.giveUp()
    } catch (thrown) {
      if (!session.isLost) throw thrown // else another daemon has it: nothing is left to give up
    }
    if (session.isLost && this.#live.get(session.id) === session) this.#live.delete(session.id)
  }

  /** Every session may have another owner by now. */
  loseAll(): void {
    for (const session of this.all) {
      session.lose()
      session.interrupt(new Fault('lease_lost', { boundary: 'journal', errorRaw: 'the lease ran out' }))
      this.#live.delete(session.id)
    }
  }

  /** Drives a session that was just claimed because it is due. `first` is done before. */
  async adopt(row: SessionRow, first: (session: OwnedSession) => Promise<void>): Promise<void> {
    const live = this.peek(row.id)
    if (this.#loading.has(row.id) || (live?.row.epoch ?? 0) > row.epoch) return // a request has claimed it after us
    const loading = this.#inherited(row).finally(() => this.#loading.delete(row.id))
    this.#loading.set(row.id, loading) // I1
    const session = await loading
    try {
      await first(session)
    } finally {
      session.endUse()
      this.#parts.base.folders.update(session)
      if (!session.isLost) this.#engine.driveInherited(session) // also if a command could not be read: the next look finds it
    }
  }

  /** Whether the session is in memory, or will be. */
  isKnown(id: string): boolean {
    return this.#live.has(id) || this.#loading.has(id)
  }

  /** A request wants the session to continue: from now on we drive it. */
  async recover(id: string): Promise<OwnedSession | 'owned' | undefined> {
    this.request(id)
    const session = await this.own(id)
    if (session instanceof OwnedSession) await this.#continueOnce(session)
    return session
  }

  /** Marks the session as ours to drive. */
  request(id: string): void {
    if (this.#scope === 'requested') this.#requested.add(id)
  }

  owns(id: string): boolean {
    return this.#scope !== 'requested' || this.#requested.has(id)
  }

  forget(id: string, reason: string): void {
    this.#requested.delete(id)
    this.#parts.base.feeds.end(id, reason)
    this.#live.delete(id)
    this.#parts.base.observer.changed.tell(id)
  }

  /** Recovers every unfinished turn, unless we recover on request only. Returns how many. */
  async recoverAll(onRecover: NonNullable<EngineOptions['onRecover']> = () => undefined): Promise<number> {
    await this.#quarantineDamaged()
    if (this.#scope === 'requested' || !this.#store.lease.isEndless) return 0 // I4; daemons that share a store claim in portions
    const rows = [
      ...(await this.#store.claimWork({ limit: CLAIMED_MAX })),
      ...(await this.#store.claimWork({ limit: CLAIMED_MAX, suspects: true })),
    ]
    const unclaimed = rows[Symbol.iterator]() // shared by all workers: each takes the next row
    const worker = async (): Promise<void> => {
      for (const row of unclaimed) await this.#loadUnfinished(row)
    }
    await Promise.all(Array.from({ length: LOADS_AT_ONCE }, worker))
    const inherited = [...this.#live.values()].toSorted(byTakeovers)
    const waiting = this.#scope === 'interrupted' ? inherited.filter(waitsForSettings) : []
    for (const session of waiting) session.ignoreSettings(this.#settingsNow(session)) // I6
    if (inherited.length > 0) onRecover(inherited.flatMap((session) => this.#unfinishedTurn(session)))
    for (const session of inherited) this.#parts.base.folders.update(session) // before any of them starts a turn that waits
    for (const session of inherited) this.#engine.driveInherited(session) // I5
    const recovered = rows.length - waiting.length
    if (recovered > 0) this.#parts.base.observer.log.info({ recovered }, 'continuing unfinished turns')
    if (waiting.length > 0)
      this.#parts.base.observer.log.info(
        { waiting: waiting.length },
        'parked turns wait for a key or other set-up: breakfall resume ID',
      )
    return rows.length
  }

  // ---- details, in the order they are used above ----

  #settingsNow(session: OwnedSession): string | undefined {
    const parked = session.currentTurn.parked
    return parked === null ? undefined : settingsOf(this.#parts.waits, session, parked.fault)
  }

  #unfinishedTurn(session: OwnedSession): readonly UnfinishedTurn[] {
    const { turn } = session.fold
    if (turn === null) return []
    const {
      id: sessionId,
      workspace = null,
      model,
      provider = null,
    } = this.#parts.providers.sessionView(session.shownRow)
    const { id: turnId, parked } = turn
    const isCutOff = parked === null || isDaemonShutdown(parked.fault.category)
    const isAsking = parked !== null && questionOf(parked) !== undefined
    const state = isCutOff ? 'cut-off' : isAsking ? 'asking' : waitsForSettings(session) ? 'parked' : 'waiting'
    const shown = { model: turn.model ?? model, provider: providerView(turn.provider) ?? provider }
    return [{ sessionId, turnId, workspace, ...shown, state, category: isCutOff ? null : parked.fault.category }]
  }

  /** I3: no other daemon works on it, and this one does not either. A reader does not wait for that. */
  #recoverLost(id: string): void {
    if (!this.#store.lease.isEndless || !this.owns(id) || this.#parts.lifecycle.isClosing) return
    this.own(id).catch((err: unknown) =>
      this.#parts.base.observer.log.error({ err, sessionId: id }, 'cannot recover a session'),
    )
  }

  async #load(id: string): Promise<OwnedSession | 'owned' | undefined> {
    const found = await this.#store.getSession(id)
    if (found === undefined) return undefined
    if (found.quarantined !== null) throw faultFrom(found.quarantined)
    const row = await this.#store.claim(id)
    if (row === undefined || row === 'owned') return row
    const session = await this.#fold(row)
    this.#live.set(id, session)
    session.beginUse()
    this.#evict()
    try {
      if (this.owns(id)) await this.#continueOnce(session) // I3, I4
    } finally {
      this.#parts.base.clock.soon(() => this.#loaded(session)) // whoever waited for it uses it by then
    }
    return session
  }

  async #inherited(row: SessionRow): Promise<OwnedSession> {
    const session = await this.#fold(row)
    this.#live.set(row.id, session)
    session.beginUse() // before anyone who waited for it can give it up
    return session
  }

  #loaded(session: OwnedSession): void {
    session.endUse()
    this.#restSoon(session)
  }

  #restSoon(session: OwnedSession): void {
    this.rest(session).catch((err: unknown) =>
      this.#parts.base.observer.log.warn({ err, sessionId: session.id }, 'cannot give up a session'),
    )
  }

  async #fold(row: SessionRow): Promise<OwnedSession> {
    try {
      const { fold, chars } = await this.#foldEvents(row)
      const session = new OwnedSession(this.#parts.base, row, fold, chars)
      for (const turnId of [fold.turn?.id, ...fold.queue.map((queued) => queued.id)]) {
        const cancel = turnId === undefined ? undefined : (await this.#store.getTurn(turnId))?.cancel
        if (turnId !== undefined && cancel != null) session.rememberCancel(turnId, cancel)
      }
      return session
    } catch (thrown) {
      const fault = classify(thrown, { boundary: 'journal' })
      // An event that cannot be parsed or folded is damage, too, whatever its hash says.
      if (isFault(thrown) && thrown.category !== 'journal_corrupt') throw thrown
      const damage = damageOf(fault, row.id)
      await this.#quarantine(row.id, damage)
      throw damage
    }
  }

  async #foldEvents(row: SessionRow): Promise<{ fold: SessionFold; chars: number }> {
    let fold: SessionFold = EMPTY_FOLD
    let chars = 0
    for (let after = 0; after < row.lastSeq;) {
      const events = await this.#store.read(row.id, after, PAGE_EVENTS, PAGE_CHARS_MAX)
      for (const { body } of events) {
        fold = reduce(fold, readEvent(body, row.id))
        chars += body.length
      }
      after = events.at(-1)?.seq ?? row.lastSeq
    }
    return { fold, chars }
  }

  async #loadUnfinished(row: SessionRow): Promise<void> {
    try {
      this.#live.set(row.id, await this.#fold(row))
    } catch (thrown) {
      this.#parts.base.observer.log.error({ err: thrown, sessionId: row.id }, 'cannot recover an unfinished turn') // I2
    }
  }

  /** However many callers ask for it at the same time. */
  #continueOnce(session: OwnedSession): Promise<void> {
    return this.#recovering.run(async () => {
      if (!this.#engine.isDriving(session)) await this.#continue(session)
    })
  }

  /** Continues what an earlier owner left unfinished, if anything. */
  async #continue(session: OwnedSession): Promise<void> {
    const { turn, queue } = session.fold
    if (turn === null && queue.length === 0) return
    await recoverTurn(session, turn)
    this.#engine.drive(session)
  }

  /** Sessions whose journal is shorter than it once was, as the store found when it was opened. */
  async #quarantineDamaged(): Promise<void> {
    for (const { sessionId, what } of this.#store.problems) {
      this.#parts.base.observer.log.error({ sessionId, what }, 'the journal has lost data')
      if (sessionId === null) continue
      const fault = new Fault('journal_corrupt', {
        facts: { name: `session ${sessionId}`, detail: what },
        errorRaw: what,
      })
      await this.#quarantine(sessionId, fault)
    }
  }

  async #quarantine(sessionId: string, fault: Fault): Promise<void> {
    this.#parts.base.observer.log.error({ err: fault, sessionId }, 'session quarantined: its journal is damaged')
    const { report } = quarantinedFault(fault)
    await this.#store.quarantine(sessionId, report)
    const folder = quarantineFolder(this.#parts.stateDir)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeFileSync(join(folder, `${sessionId}.json`), JSON.stringify(report, null, 2), { mode: 0o600 })
  }

  /** I7: evicts sessions without work, least recently used first. */
  #evict(): void {
    const { sessionsIdleMax, idleCharsMax } = this.#parts.limits
    const idle = [...this.#live].filter(([, session]) => !this.#isUsed(session))
    let chars = idle.reduce((sum, [, { journalChars }]) => sum + journalChars, 0)
    for (const [id, session] of idle) {
      const { journalChars } = session
      if (this.#live.size <= sessionsIdleMax && chars <= idleCharsMax) return
      this.#live.delete(id)
      session.lose() // an answer that comes late must not be written past the next one in memory
      chars -= journalChars
    }
  }

  #isUsed(session: OwnedSession): boolean {
    const { fold, isInUse } = session
    return isInUse || fold.turn !== null || fold.queue.length > 0 || this.#engine.isDriving(session)
  }
}

/** For requests that only the owner can serve. */
export function ours(session: OwnedSession | 'owned' | undefined, id: string): OwnedSession {
  if (session === undefined) throw new Fault('not_found', { facts: { name: `session ${id}` } })
  if (session !== 'owned') return session
  throw new Fault('lease_lost', { boundary: 'journal', errorRaw: 'another daemon owns the session' })
}

const quarantineFolder = (stateDir: string): string => join(stateDir, 'quarantine')

/** The session is deleted, and what was wrong with it with it. */
export const forgetQuarantined = (stateDir: string, id: string): void =>
  rmSync(join(quarantineFolder(stateDir), `${id}.json`), { force: true })

/** A key, a URL or another setting is wrong, and no time is known at which that may change. */
function waitsForSettings({ fold }: OwnedSession): boolean {
  const parked = fold.turn?.parked ?? null
  if (parked === null) return false
  const wait = waitOf(parked)
  return wait.for === 'config' && wait.until === null
}

const byTakeovers = (a: OwnedSession, b: OwnedSession): number => takeovers(a) - takeovers(b)
const takeovers = ({ fold }: OwnedSession): number => fold.turn?.takeovers ?? 0

function readEvent(body: string, sessionId: string): ReturnType<typeof parseEvent> {
  try {
    return parseEvent(JSON.parse(body))
  } catch (thrown) {
    throw damageOf(classify(thrown, { boundary: 'journal' }), sessionId)
  }
}

function damageOf(fault: Fault, sessionId: string): Fault {
  if (fault.category === 'journal_corrupt') return fault
  return new Fault('journal_corrupt', {
    facts: { name: `session ${sessionId}`, detail: 'an event cannot be read' },
    cause: fault,
  })
}
