/**
 * Goes on with a turn that an earlier owner of the session left unfinished: handed over, or dropped by a process that died.
 *
 * I1  A start is no stampede: of a crowd that was left, each goes on in its place.
 * I2  Nothing is written of it before that. If this process dies first it has done nothing with the turn, which then counts
 *     as no takeover: a daemon that dies again and again takes none of those that waited along.
 */
import { isHandover } from '@breakfall/model'
import type { TurnFold } from '../turn/state.ts'
import type { LiveSession } from './live-session.ts'
import { resumeTurn } from './park.ts'
import type { Ports } from './ports.ts'

/** Waits until it is this session's turn to go on, or until somebody wants something of it. */
export async function waitForPlace(ports: Ports, session: LiveSession): Promise<void> {
  const { turn } = session.fold
  const isParked = turn?.parked != null && !isHandover(turn.parked.fault.category) // has its place when it can go on
  if (!isParked && session.cancelOf(turn?.id) === null) await session.isPokedWithin(ports.crowd.placeMs()) // I1
}

/** Says in the journal that the turn is worked on again, unless it is parked for something else, or a person woke it already. */
export async function takeUpTurn(session: LiveSession, asLeft: TurnFold | null): Promise<void> {
  if (asLeft === null) return
  const { id, parked } = asLeft
  if (parked === null) await session.append({ type: 'taken-over', turnId: id, epoch: session.row.epoch })
  else if (isHandover(parked.fault.category)) await resumeTurn(session, 'restart')
}
