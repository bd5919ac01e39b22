/**
 * Stops a tool call whose turn is ending, and says what became of it.
 *
 * I1  A command that may be running is killed at its runner; if the runner cannot be reached, the result says so.
 * I2  What a command printed before its end is journalled before its result.
 * I3  A write whose answer is missing is looked up in its file. Before that, the session gets a higher epoch at its runner, which
 *     refuses a request of this write that is still on its way.
 */
import { type Fault, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Exec } from '@breakfall/wire'
import type { ToolCall } from '../turn/state.ts'
import { isBoxGone } from '../boxes/box.ts'
import { followExec, killBash, missingOutput } from './bash.ts'
import { NOTES_FILE, wasFileWritten } from './file-tools.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { forModel } from './output.ts'
import type { Runners } from '../runner/runners.ts'
import { cleanUpAtRunner } from '../boxes/runner-cleanup.ts'
import { type StoppedCall, stoppedBefore, stoppedLate, type ToolOutcome } from '../turn/tool-outcome.ts'

/** Stops a call that runs in the session's box. */
export async function stopBoxCall(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  fault: Fault,
): Promise<StoppedCall> {
  const { runnerId } = session.data
  const isHarmless = call.tool === 'read' || call.tool === 'process'
  if (isHarmless || !session.calls.mayHaveStarted(call.callId) || runnerId === null) return stoppedBefore(fault)
  const stop = NOTES_FILE.has(call.tool) ? stopWrite : stopCommand
  return stop(runners, session, call, runnerId, fault)
}

// ---- details, in the order they are used above ----

async function stopWrite(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  runnerId: string,
  fault: Fault,
): Promise<StoppedCall> {
  const signal = session.clock.timeout(runners.limits.killMsMax)
  try {
    await session.raiseEpoch(session.row.epoch)
    const { epoch } = session.row
    const written = await cleanUpAtRunner(runners, { runnerId, epoch }, signal, async (client) => {
      await client.ownBox(session.boxId, { signal }) // I3
      return wasFileWritten(client, session, call, signal)
    })
    if (written === 'yes') return { ...WRITTEN_LATE, isUnsure: false }
    return written === 'no' ? stoppedBefore(fault) : stoppedLate(fault)
  } catch (err) {
    session.observer.log.warn(
      { err, sessionId: session.id, callId: call.callId },
      'cannot look up an interrupted write',
    )
    return stoppedLate(fault)
  }
}

const WRITTEN_LATE: ToolOutcome = { outcome: 'ok', text: 'The file was written just before the turn ended.' }

async function stopCommand(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  runnerId: string,
  fault: Fault,
): Promise<StoppedCall> {
  const signal = session.clock.timeout(runners.limits.killMsMax)
  const exec = await kill(runners, session, call, runnerId, signal)
  if (exec === undefined) {
    const text = withOutput(
      session,
      call,
      '[cancelled, but the runner could not be reached: the command may still be running]',
    )
    return { outcome: 'cancelled', text, isUnsure: true } // I1
  }
  if (exec === null) return stoppedBefore(fault)
  if (exec === 'box gone') {
    const text = withOutput(session, call, '[cancelled: its box is gone, and with it what is known of the command]')
    return { outcome: 'cancelled', text, isUnsure: true }
  }
  const isComplete = await journalRest(runners, session, call, exec, runnerId, signal) // I2
  return endedCommand(session, call, exec, isComplete)
}

/** Null if it never ran. Undefined if the runner could not be reached in time. A box that is gone has no record of what ran in it. */
async function kill(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  runnerId: string,
  signal: AbortSignal,
): Promise<Exec | 'box gone' | null | undefined> {
  try {
    return await cleanUpAtRunner(runners, { runnerId, epoch: session.row.epoch }, signal, async (client) => {
      await session.box.fence(() => client.ownBox(session.boxId, { signal }))
      const exec = await killBash(client, session.boxId, call, signal)
      return exec === null && session.data.boxMade && !(await hasBox(client, session.boxId, signal)) ? 'box gone' : exec
    })
  } catch (thrown) {
    session.observer.log.warn(
      { err: thrown, sessionId: session.id, execId: call.execId },
      'cannot reach a cancelled command',
    )
    return undefined
  }
}

async function hasBox(client: RunnerClient, boxId: string, signal: AbortSignal): Promise<boolean> {
  try {
    await client.getBox(boxId, { signal })
    return true
  } catch (thrown) {
    if (isBoxGone(thrown)) return false
    throw thrown
  }
}

/** False if the rest of the output cannot be read, or the disk is too full for it: the space left is for the turn's end. */
async function journalRest(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  { execId }: Exec,
  runnerId: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (!(await session.hasSpace())) return false
  try {
    await cleanUpAtRunner(runners, { runnerId, epoch: session.row.epoch }, signal, (client) =>
      followExec(session, client, call, execId, { signal }),
    ) // reading on from the journal's position may be repeated
    return true
  } catch (thrown) {
    const isJournalFault = isFault(thrown) && thrown.report.boundary === 'journal'
    if (isJournalFault && thrown.category !== 'journal_full') throw thrown
    session.observer.log.warn(
      { err: thrown, sessionId: session.id, execId },
      "a cancelled command's output is incomplete",
    )
    return false
  }
}

function endedCommand(session: OwnedSession, call: ToolCall, exec: Exec, isComplete: boolean): StoppedCall {
  const exit = exec.exit ?? undefined
  if (exit?.cause === 'runner_lost') {
    const text = withOutput(
      session,
      call,
      '[cancelled: the runner lost track of it; some of its output may be missing]',
    )
    return { outcome: 'cancelled', text, exit, isUnsure: true }
  }
  const losses = [
    ...(isComplete ? [] : ['not all of its output is here']),
    ...(exit === undefined ? [] : missingOutput(exit)),
  ]
  const missing = losses.map((note) => `; ${note}`).join('')
  if (exit?.cause === 'exited') {
    const note = `[exit code ${exit.code}, just before it was cancelled${missing}]`
    const outcome = exit.code === 0 ? 'ok' : 'failed'
    return { outcome, text: withOutput(session, call, note), exit, isUnsure: false }
  }
  const text = withOutput(session, call, `[cancelled: it was ended${missing}]`)
  return { outcome: 'cancelled', text, exit, isUnsure: false }
}

function withOutput(session: OwnedSession, call: ToolCall, note: string): string {
  const { output } = session.fold.turn?.calls.find(({ callId }) => callId === call.callId) ?? call
  const shown = forModel(output).trimEnd()
  return shown === '' ? note : `${shown}\n${note}`
}
