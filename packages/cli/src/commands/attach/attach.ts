/** `breakfall attach`: follows a turn that another terminal, a detached run or the API started, and answers what it asks. */
import type { SessionViewer } from '@breakfall/client'
import { EXIT_CODES, faultFrom } from '@breakfall/faults'
import type { Turn } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { isOver, turnLines } from '../../render/turn-lines.ts'
import { fullId, ifNotFound, lastTurnId, onlyOne, turnFor } from '../../sessions/lookup.ts'
import { findViewer } from '../../sessions/viewer.ts'
import type { Output } from '../../terminal/output.ts'
import { exitCodeFor } from '../run/result.ts'
import { runCommand } from '../run/run.ts'

/** If no daemon works on the turn, this command continues it with its own, as `run` does. Returns the exit code of the turn. */
export async function attachCommand(context: Context, given: string | undefined): Promise<number> {
  const { viewer } = await findViewer(context.config, context.config.modelName ?? '')
  const unfinished = { state: UNFINISHED, none: 'no turn is running or parked' }
  const id = given ?? (await onlyOne(viewer, context.out, unfinished))
  if (id === undefined) return EXIT_CODES.finished
  const turn = await turnOf(viewer, id)
  if (Symbol.dispose in viewer) viewer[Symbol.dispose]() // a daemon may write the journal soon
  if (isOver(turn)) return showEnded(turn, context.out)
  return runCommand(context, { session: turn.sessionId, attach: turn.id }, [])
}

// ---- details ----

const UNFINISHED = 'needs,parked,retrying,running,queued'

/** The turn with that id, or the session's current one, or its last one. */
async function turnOf(viewer: SessionViewer, input: string): Promise<Turn> {
  const id = await fullId(viewer, input)
  const session = await viewer.session(id).catch(ifNotFound)
  const turnId = session === undefined ? undefined : lastTurnId(session)
  return turnId === undefined ? turnFor(viewer, id) : viewer.turn(turnId)
}

function showEnded(turn: Turn, out: Output): number {
  const { id: turnId, sessionId, state, result, fault, faultsSurvived = 0, finish } = turn
  const outcome = state === 'finished' || state === 'cancelled' ? state : 'failed'
  const report = fault === null ? null : faultFrom(fault).report
  const ended = { outcome, turnId, text: result?.text ?? '', fault: report, faultsSurvived, finish } as const
  if (out.json) out.result({ ...ended, sessionId, usage: turn.usage })
  else for (const line of turnLines(turn)) out.line(line)
  return exitCodeFor(ended)
}
