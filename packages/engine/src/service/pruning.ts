/**
 * Deletes sessions that have ended, with their events, keys, boxes and outputs. A session with a running, queued or parked turn is
 * never deleted here.
 */
import { PRUNE_OLDER_THAN_DAYS, type Pruned, type PruneInput } from '@breakfall/wire'
import type { EndedSession, StoreUsage } from '../store/store.ts'
import type { ConfigReader } from '../live-config.ts'
import type { RetentionConfig } from '../options.ts'
import type { BoxRemovals } from '../boxes/box-removals.ts'
import { boxesOf } from '../boxes/box.ts'
import type { Engine } from '../loop/engine.ts'
import { type Clock, type Timer, unhurried } from '../clock.ts'
import type { Providers } from '../providers/providers.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { Observer } from '../session/observer.ts'
import type { SessionParts } from '../session/session-parts.ts'
import type { SessionLoader } from './loader.ts'

type PruningParts = {
  readonly base: SessionParts
  readonly providers: Providers
  readonly lifecycle: Lifecycle
  readonly engine: Engine
  readonly loader: SessionLoader
  readonly boxRemovals: BoxRemovals
}

export class Pruning {
  readonly #base: SessionParts
  readonly #providers: Providers
  readonly #lifecycle: Lifecycle
  readonly #engine: Engine
  readonly #loader: SessionLoader
  readonly #boxRemovals: BoxRemovals
  /** A clock that is turned forward deletes nothing while this process lives. */
  readonly #unhurriedNow: () => number

  constructor(parts: PruningParts) {
    this.#base = parts.base
    this.#providers = parts.providers
    this.#lifecycle = parts.lifecycle
    this.#engine = parts.engine
    this.#loader = parts.loader
    this.#boxRemovals = parts.boxRemovals
    this.#unhurriedNow = unhurried(parts.base.clock)
  }

  /** A session is deleted if it is both older than requested and not among the newest that are kept. */
  async prune(request: PruneInput): Promise<Pruned> {
    const { keep = 0, dryRun = false } = request
    const olderThanMs = request.olderThanMs ?? (request.keep === undefined ? PRUNE_OLDER_THAN_DAYS * DAY_MS : undefined)
    const { ended } = await this.#base.store.usage(this.#unusedBefore())
    const before = olderThanMs === undefined ? undefined : isoTime(this.#base.clock.now() - olderThanMs)
    let [sessions, bytes, skip] = [0, 0, 0]
    for (let left = ended - keep; left > 0 && !this.#lifecycle.isClosing;) {
      const page = await this.#ended(Math.min(left, SESSIONS_AT_ONCE), { before, skip })
      if (page.length === 0) break
      const deleted = dryRun ? page : await this.#delete(page)
      sessions += deleted.length
      bytes += bytesOf(deleted)
      skip += dryRun ? page.length : page.length - deleted.length
      left -= page.length
    }
    return { sessions, bytes }
  }

  /** One pass of retention, bounded. True if there may be more to delete. */
  async retain(retention: RetentionConfig): Promise<boolean> {
    const usage = await this.#base.store.usage(this.#unusedBefore())
    const oldest = await this.#ended(SESSIONS_AT_ONCE, { skip: 0 })
    const unread = oldest.filter(({ id }) => (this.#base.feeds.get(id)?.readers ?? 0) === 0)
    const expired = expiredSessions(unread, usage, retention, this.#unhurriedNow())
    if (expired.length === 0) return false
    const deleted = await this.#delete(expired)
    this.#base.observer.log.info(
      { sessions: deleted.length, bytes: bytesOf(deleted) },
      'retention deleted ended sessions',
    )
    return deleted.length === SESSIONS_AT_ONCE
  }

  // ---- details, in the order they are used above ----

  #ended(
    limit: number,
    { before, skip }: { before?: string | undefined; skip: number },
  ): Promise<readonly EndedSession[]> {
    return this.#base.store.endedSessions({ before, unusedBefore: this.#unusedBefore(), skip, limit })
  }

  #unusedBefore(): string {
    return isoTime(this.#base.clock.now() - UNUSED_MS)
  }

  /** Returns those that were deleted. The others are in use again. */
  async #delete(sessions: readonly EndedSession[]): Promise<readonly EndedSession[]> {
    const { store } = this.#base
    const rows = (await Promise.all(sessions.map(({ id }) => store.getSession(id)))).filter((row) => row !== undefined)
    const boxes = rows.flatMap(boxesOf)
    await this.#boxRemovals.list(boxes)
    const isDeleted = await Promise.all(sessions.map(({ id }) => this.#isDeleted(id)))
    await this.#boxRemovals.remove(boxes) // keeps the boxes of sessions that still exist
    return sessions.filter((_, index) => isDeleted[index] === true)
  }

  async #isDeleted(id: string): Promise<boolean> {
    const live = this.#loader.peek(id)
    const remove = async (): Promise<boolean> => {
      if (live !== undefined && this.#isUsed(live)) return false
      if (!(await this.#base.store.deleteSession(id, { ifIdle: true }))) return false
      live?.lose()
      this.#loader.forget(id, 'session_deleted')
      this.#providers.forget(id)
      return true
    }
    return live === undefined ? remove() : live.admission.run(remove)
  }

  #isUsed(session: OwnedSession): boolean {
    const { fold, unsavedPark } = session
    return fold.turn !== null || fold.queue.length > 0 || unsavedPark !== null || this.#engine.isDriving(session)
  }
}

type RetentionParts = {
  readonly pruning: Pruning
  /** Read again for each pass. */
  readonly config: ConfigReader
  readonly clock: Clock
  readonly observer: Observer
  readonly lifecycle: Lifecycle
  readonly everyMs: number
}

/**
 * Runs retention on a schedule: a bounded pass at a time, at the start and then every minute, or sooner while there is more. Each
 * pass reads the configuration, so a changed limit takes effect with the next pass.
 */
export class Retention {
  readonly #parts: RetentionParts
  #timer: Timer | undefined
  #pass: Promise<void> = Promise.resolve()
  #created = 0

  constructor(parts: RetentionParts) {
    this.#parts = parts
    parts.observer.created.add(() => this.#countCreated())
  }

  start(): void {
    this.#runIn(0)
  }

  /** A session was created: a busy daemon does not wait for the next minute. */
  #countCreated(): void {
    this.#created += 1
    if (this.#created % CREATED_PER_PASS === 0) this.#runIn(0)
  }

  async close(): Promise<void> {
    this.#timer?.cancel()
    await this.#pass
  }

  #runIn(ms: number): void {
    if (this.#parts.lifecycle.isClosing) return
    this.#timer?.cancel()
    const pass = (): void => {
      this.#pass = this.#pass.then(() => this.#run())
    }
    this.#timer = this.#parts.clock.after(ms, pass).unref()
  }

  async #run(): Promise<void> {
    if (this.#parts.lifecycle.isClosing) return
    let hasMore = false
    try {
      const limits = (await this.#parts.config.read()).retention ?? {}
      if (isOn(limits)) hasMore = await this.#parts.pruning.retain(limits)
    } catch (thrown) {
      this.#parts.observer.log.warn({ err: thrown }, 'retention failed; it will run again')
    }
    this.#runIn(hasMore ? MORE_MS : this.#parts.everyMs)
  }
}

/** Which of the longest idle sessions retention deletes. Pure. */
export function expiredSessions(
  oldestFirst: readonly EndedSession[],
  usage: StoreUsage,
  { sessionDays, sessionsMax, bytesMax }: RetentionConfig,
  now: number,
): readonly EndedSession[] {
  const before = sessionDays === undefined ? '' : isoTime(now - sessionDays * DAY_MS)
  let { sessions, bytes } = usage
  const expired: EndedSession[] = []
  for (const session of oldestFirst) {
    const isOver = sessions > (sessionsMax ?? Infinity) || bytes > (bytesMax ?? Infinity)
    if (!isOver && session.updatedAt >= before) break
    expired.push(session)
    sessions -= 1
    bytes -= session.bytes
  }
  return expired
}

// ---- details ----

const DAY_MS = 86_400_000
const UNUSED_MS = DAY_MS // whoever creates a session means to use it soon
const SESSIONS_AT_ONCE = 100

const isoTime = (ms: number): string => new Date(Math.max(0, ms)).toISOString()

const bytesOf = (sessions: readonly EndedSession[]): number => sessions.reduce((sum, { bytes }) => sum + bytes, 0)

const isOn = (limits: RetentionConfig): boolean => Object.values(limits).some((limit) => limit !== undefined)

const CREATED_PER_PASS = 64
const MORE_MS = 100 // turns come first
