/**
 * Ends a turn: open calls get a result, followed by the one terminal event, in one append.
 *
 * I1  A turn ends once: nothing is appended if it is over already.
 * I2  A cancel reaches the process: the turn ends after the process is gone, or its fault says that this is unknown.
 */
import { Fault, type FaultReport, LIMITS } from '@breakfall/faults'
import { duration } from '@breakfall/faults/internal'
import type { EventDraftOf } from '@breakfall/wire'
import type { CancelRequest } from '../rows.ts'
import { addUsage, addCost, totalCost, type Used } from '../turn/cost.ts'
import type { ToolCall, TurnFold } from '../turn/state.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { ToolCatalog } from '../tools/catalog.ts'
import { ENDED_TOO_EARLY, notRun, type ToolOutcome } from '../turn/tool-outcome.ts'

/** The turn has failed. Open calls that may have started are `unknown`; the others were not run. */
export async function endTurn(tools: ToolCatalog, session: OwnedSession, fault: Fault): Promise<void> {
  const turnId = session.fold.turn?.id
  const files = await tools.changedFiles(session)
  await session.transact(({ turn }) => {
    if (turn === null || turn.id !== turnId) return null // I1
    const results = openCalls(turn).map((call) =>
      resultOf(turn, call, session.calls.mayHaveStarted(call.callId) ? ENDED_TOO_EARLY : notRun(fault.error)),
    )
    return { drafts: [...results, { ...terminal(turn.id, fault.report), ...usedBy(turn, session.unsaid), ...files }] }
  })
}

export async function cancelTurn(
  tools: ToolCatalog,
  session: OwnedSession,
  cancel: CancelRequest,
  open: readonly ToolCall[],
): Promise<void> {
  await stopTurn(tools, session, open, cancelledFault(cancel), actorOf(cancel))
}

/** Ends a queued turn that never started. */
export function cancelQueued(turnId: string, cancel: CancelRequest): EventDraftOf<'turn-error'> {
  return { ...terminal(turnId, cancelledFault(cancel).report), ...actorOf(cancel) }
}

export async function failTurn(
  tools: ToolCatalog,
  session: OwnedSession,
  why: 'crash_loop' | 'deadline',
  open: readonly ToolCall[],
): Promise<void> {
  if (why === 'deadline') {
    const limit = duration(session.policy.deadlineMs ?? 0)
    const fault = new Fault('deadline_exceeded', { facts: { limit }, stopped: 'deadline_passed' })
    return stopTurn(tools, session, open, fault, { actor: 'deadline' })
  }
  await stopTurn(tools, session, open, crashLoop())
}

/** Ends a parked turn that another prompt continues. It has no open calls. */
export function supersededDraft(turn: TurnFold): EventDraftOf<'turn-error'> {
  const cancel = { actor: 'superseded', reason: 'another prompt continues the conversation' } as const
  return { ...terminal(turn.id, cancelledFault(cancel).report), ...usedBy(turn, null), ...actorOf(cancel) }
}

/** Stops the turn's open calls, then ends the turn. */
export async function stopTurn(
  tools: ToolCatalog,
  session: OwnedSession,
  open: readonly ToolCall[],
  fault: Fault,
  by: Actor = {},
): Promise<void> {
  const turnId = session.fold.turn?.id
  const outcomes = await Promise.all(open.map(async (call) => [call, await tools.stop(session, call, fault)] as const)) // I2
  const files = await tools.changedFiles(session)
  const isUnsure = outcomes.some(([, outcome]) => outcome.isUnsure)
  const final = isUnsure ? fault.with({ sideEffects: 'unknown' }) : fault
  await session.transact(({ turn }) => {
    if (turn === null || turn.id !== turnId) return null // I1
    const results = outcomes.map(([call, { outcome, text, exit }]) => resultOf(turn, call, { outcome, text, exit }))
    const used = usedBy(turn, session.unsaid)
    return { drafts: [...results, { ...terminal(turn.id, final.report), ...used, ...by, ...files }] }
  })
}

// ---- details, in the order they are used above ----

function cancelledFault({ actor, reason }: Pick<CancelRequest, 'actor' | 'reason'>): Fault {
  return new Fault('cancelled', {
    facts: { name: actor === 'user' ? 'request' : actor, detail: reason ?? undefined },
    errorRaw: `cancelled by ${actor}${reason === null ? '' : `: ${reason}`}`,
    reason: reason ?? undefined,
  })
}

type Actor = Pick<EventDraftOf<'turn-error'>, 'actor' | 'reason'>

const actorOf = ({ actor, reason }: Pick<CancelRequest, 'actor' | 'reason'>): Actor => ({
  actor,
  reason: reason ?? undefined,
})

export const openCalls = (turn: TurnFold): readonly ToolCall[] => turn.calls.filter((call) => call.result === null)

const resultOf = (turn: TurnFold, call: ToolCall, outcome: ToolOutcome): EventDraftOf<'tool-result'> => ({
  type: 'tool-result',
  turnId: turn.id,
  callId: call.callId,
  ...outcome,
})

function terminal(turnId: string, report: FaultReport): EventDraftOf<'turn-error'> {
  const { at: _at, ...rest } = report
  return { ...rest, type: 'turn-error', turnId }
}

/** What the whole turn used. */
function usedBy(turn: TurnFold, last: Used | null): Pick<EventDraftOf<'turn-error'>, 'usage' | 'cost'> {
  const cost = totalCost(addCost(turn.cost, last?.usage, last?.cost))
  return { usage: addUsage(turn.usage, last?.usage), ...(cost === undefined ? {} : { cost }) }
}

const crashLoop = (): Fault =>
  new Fault('crash_loop', {
    facts: { name: 'The daemon', limit: `${LIMITS.restartsMax} times on this turn` },
    stopped: 'restarts_spent',
    boundary: 'daemon',
    next: 'never', // it would crash again
    message: { action: 'Breakfall ended the turn.' },
  })
