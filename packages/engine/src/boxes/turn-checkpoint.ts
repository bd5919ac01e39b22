/**
 * The checkpoint of a turn: taken before the first tool that can write.
 *
 * I1  A tool waits for it, but not for long: without the wait, undo would miss what a fast command does; with a longer one, a
 *     large folder would stop the turn. A checkpoint that is not ready by then is taken while the tool runs, and says so.
 * I2  A checkpoint that fails never fails a turn: the runner lists it as skipped, with the reason.
 * I3  The turn's id is in the label, so every daemon that reaches the runner knows which turn it belongs to. Of several with the
 *     same label (a daemon died in between) the oldest counts.
 */
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box } from '@breakfall/wire'
import type { OwnedSession } from '../session/owned-session.ts'

/** Call it before a tool that may write. */
export async function checkpointTurn(session: OwnedSession, client: RunnerClient, box: Box): Promise<void> {
  const { id: turnId } = session.currentTurn
  if (box.checkpoints !== 'auto' || !session.box.takesCheckpoint(turnId)) return
  const taking = client
    .takeCheckpoint(session.boxId, { label: labelOf(turnId) }) // it outlives a cancel
    .catch((thrown: unknown) =>
      session.observer.log.debug({ err: thrown, sessionId: session.id }, 'no checkpoint of this turn'),
    ) // I2
  await session.clock.within(taking, WAIT_MS) // I1
}

/** I3 */
export const labelOf = (turnId: string): string => `turn ${turnId}`

export function turnOf(label: string | null): string | null {
  return /^turn (\S+)$/.exec(label ?? '')?.[1] ?? null
}

// ---- details ----

const WAIT_MS = 10_000 // usually a tenth of a second; seconds for the first checkpoint of a large folder that is no repository
