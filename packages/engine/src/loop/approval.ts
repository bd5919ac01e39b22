/**
 * Approvals: how a call asks a person, and what an answer does. Which calls ask is said by the tools.
 *
 * I1  The question and the park are one append: a crash leaves both or neither.
 * I2  A call that waits has not started, and stays so until an answer is in the journal.
 */
import { decide, Fault, withDecision } from '@breakfall/faults'
import type { EventDraft, TurnApprove } from '@breakfall/wire'
import { deadlineAt } from '../turn/next.ts'
import type { SessionFold, ToolCall } from '../turn/state.ts'
import { stopTurn } from './end-turn.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { parkTurn, type WaitPort } from './park.ts'
import { notRun } from '../turn/tool-outcome.ts'

export async function askApproval(waits: WaitPort, session: OwnedSession, call: ToolCall, why: string): Promise<void> {
  const turn = session.currentTurn
  const { policy } = session
  const fault = new Fault('approval_needed', {
    facts: { name: call.tool, detail: why },
    callId: call.callId,
    errorRaw: `approve is ${policy.approve}`,
  })
  const situation = { at: 'limit', because: 'approval_needed', deadlineAt: deadlineAt(turn, policy) } as const
  const decision = decide(fault.report, situation, policy, session.clock.now())
  if (decision.action !== 'park') return stopTurn(waits.tools, session, [call], withDecision(fault, decision))
  const expiresAt = new Date(session.clock.now() + policy.approveMsMax).toISOString()
  const { callId, tool, arguments: given } = call
  const question = {
    type: 'approval-requested',
    turnId: turn.id,
    callId,
    tool,
    arguments: given,
    why,
    expiresAt,
  } as const
  await parkTurn(waits, session, fault.report, null, { because: decision.because, asked: question }) // I1
}

/** The events of an answer, none if it was given before. Throws if the turn does not wait, or not for this call. */
export function approvalDrafts(
  fold: SessionFold,
  turnId: string,
  { callId, decision, reason }: TurnApprove,
): readonly EventDraft[] {
  const { turn } = fold
  const call = turn?.id === turnId ? turn.calls.find((entry) => entry.callId === callId) : undefined
  if (call?.approval?.decision === decision) return [] // a client that sees the question again answers it again
  if (turn?.id !== turnId || turn.parked === null)
    throw new Fault('turn_not_parked', { facts: { detail: 'not waiting for an approval' }, turnId })
  if (call?.approval == null || call.approval.decision !== null || call.result !== null)
    throw new Fault('not_found', { facts: { name: 'call that waits for an approval under this id' }, turnId })
  const approval = { type: 'approval', turnId, callId, decision, actor: 'user', reason: reason ?? null } as const
  return [approval, { type: 'resumed', turnId, because: 'person' }]
}

/** The model reads that the call was denied, and why. */
export async function denyCall(session: OwnedSession, { callId }: ToolCall, reason: string | null): Promise<void> {
  const { outcome, text } = notRun(
    `the user denied it${reason === null || reason === '' ? '.' : `, saying: ${reason}`}`,
  )
  await session.append({ type: 'tool-result', turnId: session.currentTurn.id, callId, outcome, text })
}
