/** The turn of a run: a new one for its prompt, or the one that its session was left with. */
import { Fault, isFault } from '@breakfall/faults'
import type { Session, Turn } from '@breakfall/wire'
import { lastTurnId } from '../commands/sessions.ts'
import type { DaemonClient } from '../daemon/client.ts'
import { takeUp, waitsFor } from '../render/waits.ts'

export type StartedTurn = {
  readonly turnId: string
  /** The event before the first that this run shows. */
  readonly after: number
  /** Somebody else has started it, and is at work on it. */
  readonly isTheirs: boolean
}

export async function startTurn(
  client: DaemonClient,
  session: Session,
  prompt: string | undefined,
): Promise<StartedTurn> {
  if (prompt !== undefined) {
    const receipt = await client.prompt(session.id, prompt).catch(async (error: unknown) => {
      throw isFault(error) && error.category === 'session_busy' ? await busyFault(error, client, session.id) : error
    })
    return { turnId: receipt.turnId, after: receipt.seq - 1, isTheirs: false }
  }
  if (session.turnId === null) {
    const ended = await endedMeanwhile(client, session)
    if (ended !== undefined) return { turnId: ended, after: 0, isTheirs: false }
    throw new Fault('invalid_request', {
      error: `session ${session.id} has no turn to go on with; give it a prompt: breakfall run --continue "PROMPT"`,
    })
  }
  const turn = await client.turn(session.turnId)
  const isLeft = turn.state === 'parked' || turn['live'] === false
  const isOurs = isLeft && (await client.resume(turn.id).then(() => true, goesOnAlready))
  return { turnId: turn.id, after: session.lastSeq, isTheirs: !isOurs }
}

// ---- details, in the order they are used above ----

/** What the session is busy with, and each thing that can be done about it. */
async function busyFault(fault: Fault, client: DaemonClient, sessionId: string): Promise<Fault> {
  const { turnId } = await client.session(sessionId)
  if (turnId === null) return fault // over by now: the same again succeeds
  const turn = await client.turn(turnId)
  const others = `to end it: breakfall cancel ${sessionId}; to begin anew beside it: breakfall run "PROMPT"`
  return fault.with({ error: `turn ${turnId} of this session ${standing(turn)}; ${others}` })
}

function standing(turn: Turn): string {
  const { id, sessionId, state, parked } = turn
  if (parked !== null)
    return `is parked and waits ${waitsFor(parked)}, so it takes no other prompt; ${takeUp(sessionId)}`
  if (turn['live'] === false) return `was left in the middle and nobody runs it; ${takeUp(sessionId)}`
  return `is ${state}, so it takes no other prompt yet; to follow it: breakfall run --session ${sessionId}, or breakfall tail ${id}`
}

/** A daemon that was just started may have brought the turn to its end before it was asked for it. */
async function endedMeanwhile(client: DaemonClient, session: Session): Promise<string | undefined> {
  const turnId = await lastTurnId(client, session)
  const { endedAt = null } = turnId === undefined ? {} : await client.turn(turnId)
  return endedAt !== null && Date.parse(endedAt) >= performance.timeOrigin ? turnId : undefined
}

function goesOnAlready(error: unknown): false {
  if (isFault(error) && error.category === 'turn_not_parked') return false
  throw error
}
