/**
 * Ends a turn: open calls get a result, then comes the one terminal event, in one append.
 *
 * I1  A turn ends once: nothing is appended where it is over already.
 * I2  A cancel reaches the process: the turn ends after the word that it is gone, or says plainly that there was none.
 */
import { duration, Fault, type FaultReport, isFault, LIMITS } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { EventDraftOf, Exec } from '@breakfall/wire'
import type { CancelRequest } from '../store/store.ts'
import type { Call, TurnFold } from '../turn/state.ts'
import { followExec, killBash, lossesOf } from './bash.ts'
import type { LiveSession } from './live-session.ts'
import { forModel } from './output.ts'
import type { Ports } from './ports.ts'
import { reachRunner } from './reach.ts'
import { hasRoom } from './room.ts'
import { failedOutcome, type ToolOutcome, unknownOutcome } from './tool-outcome.ts'

/** The turn has failed. Calls that may have begun are `unknown`, the others were not run. */
export async function endTurn(session: LiveSession, fault: Fault): Promise<void> {
  await session.transact(({ turn }) => {
    if (turn === null) return null // I1
    const results = openCalls(turn).map((call) =>
      session.freshCalls.has(call.callId) ? resultOf(turn, call, notRun(fault)) : resultOf(turn, call, TOO_EARLY),
    )
    return { drafts: [...results, terminal(turn.id, fault.report)] }
  })
}

export async function cancelTurn(
  ports: Ports,
  session: LiveSession,
  cancel: CancelRequest,
  open: readonly Call[],
): Promise<void> {
  await stopTurn(ports, session, open, cancelledFault(cancel), byWhom(cancel))
}

/** Ends a queued turn that never started. */
export function cancelQueued(turnId: string, cancel: CancelRequest): EventDraftOf<'turn-error'> {
  return { ...terminal(turnId, cancelledFault(cancel).report), ...byWhom(cancel) }
}

export async function failTurn(
  ports: Ports,
  session: LiveSession,
  why: 'crash_loop' | 'steps_spent' | 'deadline',
  open: readonly Call[],
): Promise<void> {
  if (why === 'deadline') {
    const limit = duration(session.policy.deadlineMs ?? 0)
    const fault = new Fault('deadline_exceeded', { facts: { limit }, stopped: 'deadline_passed' })
    return stopTurn(ports, session, open, fault, { actor: 'deadline' })
  }
  const fault = why === 'crash_loop' ? crashLoop() : stepsSpent(session.policy.stepsMax)
  await stopTurn(ports, session, open, fault)
}

/** Ends what still runs for the turn, then the turn. */
export async function stopTurn(
  ports: Ports,
  session: LiveSession,
  open: readonly Call[],
  fault: Fault,
  by: Actor = {},
): Promise<void> {
  const outcomes = await Promise.all(
    open.map(async (call) => [call, await stopCall(ports, session, call, fault)] as const),
  ) // I2
  const isUnsure = outcomes.some(([, outcome]) => outcome.isUnsure)
  const told = isUnsure ? fault.with({ sideEffects: 'unknown' }) : fault
  await session.transact(({ turn }) => {
    if (turn === null) return null // I1
    const results = outcomes.map(([call, { outcome, text, exit }]) => resultOf(turn, call, { outcome, text, exit }))
    return { drafts: [...results, { ...terminal(turn.id, told.report), ...by }] }
  })
}

// ---- details, in the order they are used above ----

function cancelledFault({ actor, reason }: CancelRequest): Fault {
  return new Fault('cancelled', {
    facts: { name: actor === 'user' ? 'request' : actor, detail: reason ?? undefined },
    errorRaw: `cancelled by ${actor}${reason === null ? '' : `: ${reason}`}`,
    reason: reason ?? undefined,
  })
}

type Actor = Pick<EventDraftOf<'turn-error'>, 'actor' | 'reason'>

const byWhom = ({ actor, reason }: CancelRequest): Actor => ({ actor, reason: reason ?? undefined })

export const openCalls = (turn: TurnFold): readonly Call[] => turn.calls.filter((call) => call.result === null)

const resultOf = (turn: TurnFold, call: Call, outcome: ToolOutcome): EventDraftOf<'tool-result'> => ({
  type: 'tool-result',
  turnId: turn.id,
  callId: call.callId,
  ...outcome,
})

function terminal(turnId: string, report: FaultReport): EventDraftOf<'turn-error'> {
  const { at: _at, ...rest } = report
  return { ...rest, type: 'turn-error', turnId }
}

const NOT_RUN: ToolOutcome = { outcome: 'cancelled', text: 'Cancelled before it ran.' }

const notRun = (fault: Fault): ToolOutcome => failedOutcome(`This was not run: ${fault.error}`)

const TOO_EARLY: ToolOutcome = unknownOutcome('the turn ended before its outcome was known')

type Stopped = ToolOutcome & { readonly isUnsure: boolean }

async function stopCall(ports: Ports, session: LiveSession, call: Call, fault: Fault): Promise<Stopped> {
  const isCancel = fault.class === 'cancelled'
  if (call.tool === 'read' || session.freshCalls.has(call.callId) || session.data.runnerId === null) {
    return { ...(isCancel ? NOT_RUN : notRun(fault)), isUnsure: false }
  }
  if (call.tool !== 'bash') {
    const text = 'Cancelled: the file may or may not have been written.'
    return { ...(isCancel ? { outcome: 'cancelled', text } : TOO_EARLY), isUnsure: true }
  }
  const signal = AbortSignal.timeout(ports.limits.killMsMax)
  let ended: { readonly client: RunnerClient; readonly exec: Exec | null }
  try {
    const at = { runnerId: session.data.runnerId, epoch: session.row.epoch }
    ended = await reachRunner(ports, at, signal, async (client) => ({
      client,
      exec: await killBash(client, session.boxId, call, signal),
    }))
  } catch (thrown) {
    ports.log.warn(
      { err: thrown, sessionId: session.id, execId: call.execId },
      'a cancelled command could not be reached',
    )
    const text = withOutput(
      session,
      call,
      '[cancelled, but the runner could not be reached: the command may still be running]',
    )
    return { outcome: 'cancelled', text, isUnsure: true }
  }
  const { client, exec } = ended
  if (exec === null) return { ...(isCancel ? NOT_RUN : notRun(fault)), isUnsure: false }
  const isWhole = await hasRest(ports, session, client, call, exec, signal)
  const exit = exec.exit ?? undefined
  const losses = [...(isWhole ? [] : ['not all of its output is here']), ...(exit === undefined ? [] : lossesOf(exit))]
  const missing = losses.map((words) => `; ${words}`).join('')
  if (exit?.cause === 'exited') {
    const words = `[exit code ${exit.code}, just before it was cancelled${missing}]`
    const outcome = exit.code === 0 ? 'ok' : 'failed'
    return { outcome, text: withOutput(session, call, words), exit, isUnsure: false }
  }
  const text = withOutput(session, call, `[cancelled: it was ended${missing}]`)
  return { outcome: 'cancelled', text, exit, isUnsure: false }
}

/** What it wrote before its end is journalled before its result. False where that cannot be read, or has no room: the end itself has. */
async function hasRest(
  ports: Ports,
  session: LiveSession,
  client: RunnerClient,
  call: Call,
  exec: Exec,
  signal: AbortSignal,
): Promise<boolean> {
  if (!(await hasRoom(ports.stateDir))) return false // what is left is for the end
  try {
    await followExec(ports, session, client, call, exec.execId, signal)
    return true
  } catch (thrown) {
    const isJournals = isFault(thrown) && thrown.report.boundary === 'journal'
    if (isJournals && thrown.category !== 'journal_full') throw thrown
    ports.log.warn(
      { err: thrown, sessionId: session.id, execId: exec.execId },
      "a cancelled command's output is not whole",
    )
    return false
  }
}

function withOutput(session: LiveSession, call: Call, words: string): string {
  const { output } = session.fold.turn?.calls.find(({ callId }) => callId === call.callId) ?? call
  const shown = forModel(output).trimEnd()
  return shown === '' ? words : `${shown}\n${words}`
}

const crashLoop = (): Fault =>
  new Fault('crash_loop', {
    facts: { name: 'The daemon', limit: `${LIMITS.restartsMax} times on this turn` },
    stopped: 'restarts_spent',
    boundary: 'daemon',
  })

const stepsSpent = (stepsMax: number): Fault =>
  new Fault('quota_exceeded', {
    boundary: 'daemon',
    message: {
      happened: `The turn did not finish within ${stepsMax} step${stepsMax === 1 ? '' : 's'}.`,
      advice: 'Send another prompt to continue, or allow more with --steps-max (stepsMax in a config or a request).',
    },
    stopped: 'steps_spent',
  })
