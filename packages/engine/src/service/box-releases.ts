/**
 * Releases the boxes of idle sessions. A box on a host folder is removed, and made again for the next tool; a private one is
 * stopped with its files, and started again.
 *
 * I1  A box is released only while its session is idle, and no turn of the session begins before the release has ended.
 * I2  The store says that the box is released before the runner is called. Wherever a crash happens, the next tool finds the box
 *     in whatever state it is, and a box that still runs is found by `sweep`.
 * I3  Nothing that runs is ended: the runner refuses to release a box with a running exec.
 */
import { isFault } from '@breakfall/faults'
import { TIMER_MS_MAX } from '@breakfall/faults/internal'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box, Exec } from '@breakfall/wire'
import type { SessionRow } from '../rows.ts'
import type { BoxRemovals } from '../boxes/box-removals.ts'
import type { Engine } from '../loop/engine.ts'
import type { Runners } from '../runner/runners.ts'
import type { Timer } from '../clock.ts'
import type { Lifecycle } from '../session/lifecycle.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { SessionParts } from '../session/session-parts.ts'
import type { SessionLoader } from './loader.ts'
import { OUTPUT_LIMITS } from '../tools/output.ts'

type ReleaseParts = {
  readonly base: Pick<SessionParts, 'store' | 'policyOf'>
  readonly runners: Runners
  readonly lifecycle: Lifecycle
  readonly engine: Engine
  readonly loader: SessionLoader
  readonly boxRemovals: BoxRemovals
  readonly sweepMs: number
}

export class BoxReleases {
  readonly #parts: ReleaseParts
  readonly #engine: Engine
  readonly #loader: SessionLoader
  readonly #runners: Runners
  readonly #timers = new Map<string, Timer>()
  #sweeper: Timer | undefined
  #sweeping: Promise<void> | undefined
  #freeing: Promise<boolean> | undefined
  #stoppedSweptAt = 0

  constructor(parts: ReleaseParts) {
    this.#parts = parts
    this.#engine = parts.engine
    this.#loader = parts.loader
    this.#runners = parts.runners
    parts.engine.rested.add((session) => this.#later(session))
    parts.runners.roomIsMadeBy(() => this.#freeIdleBoxes())
  }

  /** From now on, looks for unused boxes every minute, and for those that could not be removed. */
  start(): void {
    const look = (): void => {
      void this.sweep()
      void this.#parts.boxRemovals.retry()
    }
    this.#sweeper = this.#runners.clock.every(this.#parts.sweepMs, look).unref()
  }

  close(): void {
    this.#sweeper?.cancel()
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
  }

  /**
   * The session has come to rest: its box is released unless it is used again soon. In a shared store that look claims the session, which
   * comes to rest again. So there is none for a turn that is parked, or for a box that was released: sweeps find what is left.
   */
  #later({ id, data, fold, policy }: OwnedSession): void {
    this.#timers.get(id)?.cancel()
    this.#timers.delete(id)
    if (!mayHaveBox(data) || data.boxReleased === true || fold.turn !== null || this.#parts.lifecycle.isClosing) return
    const release = (): void => {
      this.#timers.delete(id)
      void this.#releaseIfIdle(id)
    }
    this.#timers.set(id, this.#runners.clock.after(Math.min(policy.boxIdleMs, TIMER_MS_MAX), release).unref())
  }

  /** Releases the box of an idle session now. False if the session is in use or its runner cannot be reached. */
  async release(id: string): Promise<boolean> {
    const isReleased = await this.#loader.use(id, async (session) =>
      mayHaveBox(session.data) ? session.admission.run(() => this.#release(session)) : false,
    ) // I1
    return isReleased === true
  }

  /** Releases the boxes of all idle sessions in memory, at the end of a daemon that belongs to a run. */
  async releaseAll(): Promise<void> {
    const idle = [...this.#loader.all].filter((session) => this.#isIdle(session) && session.data.boxReleased !== true)
    await atMost(RELEASES_AT_ONCE, idle, ({ id }) => this.#releaseIfIdle(id))
  }

  /** Releases every box at the runner that has been idle for long enough, whoever left it there. */
  sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep()
      .catch((thrown: unknown) => this.#runners.log.debug({ err: thrown }, 'cannot look for idle boxes'))
      .finally(() => {
        this.#sweeping = undefined
      })
    return this.#sweeping
  }

  /** The runner has no room for another box: releases those that have been idle longest. True if there is room now. */
  #freeIdleBoxes(): Promise<boolean> {
    this.#freeing ??= this.#freeIdleBoxesNow()
      .catch((thrown: unknown) => {
        this.#runners.log.debug({ err: thrown }, 'cannot look for idle boxes')
        return false
      })
      .finally(() => {
        this.#freeing = undefined
      })
    return this.#freeing
  }

  // ---- details, in the order they are used above ----

  async #releaseIfIdle(id: string): Promise<void> {
    try {
      await this.release(id)
    } catch (thrown) {
      this.#runners.log.debug({ err: thrown, sessionId: id }, 'cannot release a box now; it will be tried again')
    }
  }

  async #release(session: OwnedSession): Promise<boolean> {
    const { runnerId, boxReleased = false } = session.data
    const { clock, limits } = this.#runners
    const { reached } = session.observer
    // No runner is looked up or started for this: a box at a runner that is away uses nothing.
    if (runnerId === null || !this.#runners.known.includes(runnerId) || !this.#isIdle(session)) return false
    return session.box.releasing(async (interrupt) => {
      reached('before:release')
      if (!boxReleased) await session.setData({ boxReleased: true }) // I2
      session.box.detach()
      reached('after:release-stored')
      const signal = AbortSignal.any([interrupt, clock.timeout(limits.killMsMax)])
      const { client } = await this.#runners.connect(runnerId, session.row.epoch, signal)
      const isReleased = await isGivenBack(client, session, { signal, now: clock.now() })
      reached('after:release')
      return isReleased
    })
  }

  #isIdle(session: OwnedSession): boolean {
    const { fold, unsavedPark, isLost } = session
    return (
      fold.turn === null &&
      fold.queue.length === 0 &&
      unsavedPark === null &&
      !isLost &&
      !this.#engine.isDriving(session)
    )
  }

  async #sweep(): Promise<void> {
    const now = this.#runners.clock.now()
    const idle = (await this.#idleBoxes('running')).filter(
      ({ row, since }) => now - since >= this.#parts.base.policyOf(row.data.policy).boxIdleMs,
    )
    await atMost(RELEASES_AT_ONCE, idle, ({ row }) => this.#releaseIfIdle(row.id))
    if (now - this.#stoppedSweptAt < STOPPED_SWEEP_MS) return
    this.#stoppedSweptAt = now
    const stopped = await this.#idleBoxes('stopped')
    const expired = stopped.filter(({ box, since }) => box.workspace.kind === 'host' && now - since > OUTPUT_KEPT_MS)
    await atMost(RELEASES_AT_ONCE, expired, ({ row }) => this.#releaseIfIdle(row.id))
  }

  async #freeIdleBoxesNow(): Promise<boolean> {
    const idle = (await this.#idleBoxes('running')).toSorted((a, b) => a.since - b.since).slice(0, FREED_MAX)
    const released = await atMost(RELEASES_AT_ONCE, idle, ({ row }) => this.release(row.id).catch(() => false))
    return released.includes(true)
  }

  /** Boxes at the known runners whose sessions are idle, and since when. */
  async #idleBoxes(state: 'running' | 'stopped'): Promise<readonly IdleBox[]> {
    if (this.#parts.lifecycle.isClosing) return []
    const found = await atMost(RELEASES_AT_ONCE, this.#runners.known, (runnerId) =>
      this.#idleBoxesAt(runnerId, state).catch((err: unknown) => {
        this.#runners.log.debug({ err, runnerId }, 'cannot look for idle boxes')
        return []
      }),
    )
    return found.flat()
  }

  async #idleBoxesAt(runnerId: string, state: 'running' | 'stopped'): Promise<readonly IdleBox[]> {
    const { clock, limits } = this.#runners
    const signal = clock.timeout(limits.killMsMax)
    const { client } = await this.#runners.connect(runnerId, 0, signal)
    const found: IdleBox[] = []
    for (const box of await client.listBoxes({ state, signal })) {
      const [row, ...others] = await this.#parts.base.store.sessionsOfBox(box.id)
      if (row === undefined || others.length > 0) continue // not ours, or shared
      if (row.state !== 'idle' || row.quarantined !== null || row.data.runnerId !== runnerId) continue
      found.push({ box, row, since: Math.max(Date.parse(row.updatedAt), Date.parse(box.lastTransition.at)) })
    }
    return found
  }
}

// ---- details ----

type IdleBox = { readonly box: Box; readonly row: SessionRow; readonly since: number }

const RELEASES_AT_ONCE = 4
const FREED_MAX = 10
const STOPPED_SWEEP_MS = 3_600_000
const OUTPUT_KEPT_MS = 24 * 3_600_000 // as long as runners keep the output of finished execs

const CHECKPOINTS_KEPT_MS = 7 * 24 * 3_600_000 // by then a user who wanted to undo has done it

/** The journal keeps this much of an output, or a little more. */
const JOURNALLED_BYTES = 2 * OUTPUT_LIMITS.journalBytes

const mayHaveBox = ({ runnerId }: SessionRow['data']): boolean => runnerId !== null

/** I3: false if an exec is running in it. */
async function isGivenBack(
  client: RunnerClient,
  session: OwnedSession,
  { signal, now }: { readonly signal: AbortSignal; readonly now: number },
): Promise<boolean> {
  const { boxId } = session
  const options = { ifIdle: true, signal }
  try {
    const isKept =
      session.data.box.workspace === undefined ||
      (hasCheckpoints(session.data) && !isExpired(await client.getBox(boxId, { signal }), now)) ||
      hasMoreOutput(await client.listExecs(boxId, { signal }), now)
    if (isKept) await client.stopBox(boxId, options)
    else await client.removeBox(boxId, options)
    return true
  } catch (thrown) {
    if (!isFault(thrown)) throw thrown
    if (thrown.category === 'box_not_found') return true
    if (thrown.category === 'box_invalid_state') return false
    throw thrown
  }
}

/** Undo needs the box. */
const hasCheckpoints = ({ box }: SessionRow['data']): boolean => (box.checkpoints ?? 'off') !== 'off'

const isExpired = ({ state, lastTransition }: Box, now: number): boolean =>
  state === 'stopped' && now - Date.parse(lastTransition.at) > CHECKPOINTS_KEPT_MS

/** The runner has output that the journal has only in part. Removing the box would lose it. */
const hasMoreOutput = (execs: readonly Exec[], now: number): boolean =>
  execs.some(
    ({ stdoutBytes, stderrBytes, endedAt }) =>
      stdoutBytes + stderrBytes > JOURNALLED_BYTES && endedAt !== null && now - Date.parse(endedAt) < OUTPUT_KEPT_MS,
  )

/** Works on all items, at most `count` at the same time. */
async function atMost<T, R>(count: number, items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const rest = items[Symbol.iterator]()
  const worker = async (): Promise<void> => {
    for (const item of rest) results.push(await work(item))
  }
  await Promise.all(Array.from({ length: count }, worker))
  return results
}
