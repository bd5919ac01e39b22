/**
 * Gives a session whose runner was declared lost a new box on another runner, and reports it.
 *
 * I1  What may have started at the lost runner is `unknown`, and is not started again: the move, that result and the new runner are
 *     one commit.
 * I2  The old box is listed before the session forgets it: its runner removes it if it comes back.
 */
import { type Fault, isFault } from '@breakfall/faults'
import type { EventDraft } from '@breakfall/wire'
import { LOST } from '../runner/joined-runners.ts'
import type { ToolCall } from '../turn/state.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { boxesOf } from './box.ts'
import { isSharedFolder, placementRequest } from '../runner/placement.ts'
import type { Runners } from '../runner/runners.ts'
import { BOX_LOST, type ToolOutcome, unknownOutcome } from '../turn/tool-outcome.ts'

export const isRunnerLost = (thrown: unknown): thrown is Fault => isFault(thrown) && thrown.report.reason === LOST

/** The outcome of the call that found the runner lost. Undefined: it did not start, and runs in the new box. */
export async function moveBox(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
): Promise<ToolOutcome | undefined> {
  const { runnerId, boxMade, box } = session.data
  if (runnerId === null) return undefined
  const { from, to } = await runners.replacement(runnerId, placementRequest(session.data))
  const hadBox = boxMade || session.box.seen !== null
  const filesKept = !hadBox || isSharedFolder(box.workspace, from, to)
  const outcome = outcomeOf(call, { isStarted: hadBox && session.calls.mayHaveStarted(call.callId), filesKept })
  await runners.leave(boxesOf(session.row)) // I2
  await session.transact(({ turn }) => {
    if (turn === null) return null
    const moved = { type: 'box-moved', turnId: turn.id, from: runnerId, to: to.runnerId, filesKept } as const
    const drafts: EventDraft[] = [{ ...moved, because: from?.lostBecause ?? 'dropped' }]
    if (outcome !== undefined) drafts.push({ type: 'tool-result', turnId: turn.id, callId: call.callId, ...outcome })
    return { drafts, data: { ...session.data, runnerId: to.runnerId, boxMade: false, boxReleased: false } } // I1
  })
  return outcome
}

// ---- details ----

function outcomeOf(
  { tool }: ToolCall,
  { isStarted, filesKept }: { readonly isStarted: boolean; readonly filesKept: boolean },
): ToolOutcome | undefined {
  if (isStarted && tool !== 'read') {
    const { outcome, text } = unknownOutcome('its runner was lost')
    return { outcome, text: filesKept ? text : `${text} ${FILES_LOST}` }
  }
  return filesKept ? undefined : BOX_LOST
}

const FILES_LOST =
  'The sandbox of this session was lost, too, with every file in it; a new, empty one is created for the next command.'
