/**
 * Deletes sessions that have ended, with their events, keys, boxes and outputs. A session with a running, queued or parked turn is
 * never deleted here.
 */
import { PRUNE_OLDER_THAN_DAYS, type Pruned, type PruneInput } from '@breakfall/wire'
import type { EndedSession, StoreUsage } from '../store/store.ts'
import type { RetentionConfig } from '../options.ts'
import type { BoxRemovals } from './box-removals.ts'
import type { BoxRemoval } from './boxes-of.ts'
import type { Engine } from './engine.ts'
import type { Providers } from '../providers/providers.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { LiveSession } from './live-session.ts'
import type { SessionParts } from './session-parts.ts'
import type { SessionLoader } from './loader.ts'
import { unhurried } from './unhurried.ts'

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
    const boxes = new Map<string, BoxRemoval>()
    for (const { id, epoch, data } of rows) {
      if (data.runnerId !== null) boxes.set(id, { boxId: data.box.id ?? id, runnerId: data.runnerId, epoch: epoch + 1 })
    }
    await this.#boxRemovals.list([...boxes.values()])
    const isDeleted = await Promise.all(sessions.map(({ id }) => this.#isDeleted(id)))
    await this.#boxRemovals.remove([...boxes.values()]) // keeps the boxes of sessions that still exist
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

  #isUsed(session: LiveSession): boolean {
    const { fold, unsavedPark } = session
    return fold.turn !== null || fold.queue.length > 0 || unsavedPark !== null || this.#engine.isDriving(session)
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
