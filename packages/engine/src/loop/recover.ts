/**
 * Recovers a turn that an earlier owner of the session left unfinished: handed over at shutdown, or dropped by a process that died.
 *
 * I1  A start causes no stampede: inherited turns are recovered one after another.
 * I2  Nothing is written before that. If this process dies first, it has done nothing with the turn and no takeover counts: a
 *     daemon that keeps crashing does not use up the restarts of turns that were only waiting.
 */
import { isDaemonShutdown } from '@breakfall/wire/turn'
import type { TurnFold } from '../turn/state.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { resumeTurn } from './park.ts'
import type { Pacing } from './pacing.ts'

/** Waits until this session may start, or until a request for it arrives. */
export async function waitToRecover(pacing: Pacing, session: OwnedSession): Promise<void> {
  const { turn } = session.fold
  const isParked = turn?.parked != null && !isDaemonShutdown(turn.parked.fault.category) // paced when it resumes
  if (!isParked && session.cancelOf(turn?.id) === null) await session.sleepUnlessWoken(pacing.startDelayMs()) // I1
}

/** Journals that this process continues the turn, unless the turn is parked for another reason or a user has resumed it already. */
export async function recoverTurn(session: OwnedSession, inherited: TurnFold | null): Promise<void> {
  if (inherited === null) return
  const { id, parked } = inherited
  if (parked === null)
    await session.append({ type: 'taken-over', turnId: id, epoch: session.row.epoch, ...by(session.daemonName) })
  else if (isDaemonShutdown(parked.fault.category)) await resumeTurn(session, 'restart')
}

/** A daemon that shares its store has a name. */
const by = (daemon: string): { readonly daemon?: string } => (daemon === '' ? {} : { daemon })
