/** The wait before a retry. Breakfall never shortens it, because a provider may have asked for it; a person may. */
import { retryAt } from '@breakfall/wire/turn'
import type { LiveSession } from './live-session.ts'
import type { Ports } from './ports.ts'

/** Waits until then, unless a person ends the wait or something stops the turn. A timer that ran to its end is the whole wait: the
 * clock may have been turned back meanwhile. */
export async function backOff({ now }: Pick<Ports, 'now'>, session: LiveSession, until: number): Promise<void> {
  while (session.fold.turn?.status.retry != null && now() < until && !session.signal.aborted)
    if ((await session.sleepUnlessWoken(until - now())) === 'slept') return
}

/** Ends the wait, because a person says so. False if the turn does not wait. */
export async function skipBackOff({ now }: Pick<Ports, 'now'>, session: LiveSession): Promise<boolean> {
  const events = await session.transact(({ turn }) => {
    if (turn === null || (retryAt(turn.status) ?? 0) <= now()) return null
    return { drafts: [{ type: 'resumed', turnId: turn.id, because: 'person' }] }
  })
  return events.length > 0
}
