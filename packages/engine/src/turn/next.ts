/**
 * Decides what happens next in a session, from its state alone. Pure; the engine does it and appends the result.
 *
 * I1  This same function continues a turn from its last safe point: recovery needs no separate branch.
 * I2  Tools run in order, each after its predecessor has a result; a call with a result never runs again.
 */
import { LIMITS } from '@breakfall/faults'
import { interruptedParts, nextAttempt } from '@breakfall/model/internal'
import { retryAt } from '@breakfall/wire/turn'
import { compactionDue } from './compaction.ts'
import type { Circumstances, Command, SessionFold, ToolCall, TurnFold } from './state.ts'

export function next(state: SessionFold, circumstances: Circumstances): Command {
  const { turn } = state
  if (turn === null) {
    const [first] = state.queue
    return first === undefined ? { do: 'rest' } : { do: 'start', turn: first }
  }
  const open = turn.calls.filter((call) => call.result === null)
  if (circumstances.cancel !== null) return { do: 'cancel', cancel: circumstances.cancel, open }
  if (isPastDeadline(turn, circumstances)) return { do: 'fail', why: 'deadline', open }
  if (turn.parked !== null) return { do: 'stay-parked', parked: turn.parked }
  if (turn.takeovers >= LIMITS.restartsMax) return { do: 'fail', why: 'crash_loop', open }
  const until = retryAt(turn.status)
  if (until !== null && isAhead(until, circumstances.now)) return { do: 'pause', until }
  if (turn.answer.isAnswering) {
    const parts = interruptedParts(turn.answer)
    if (parts.length > 0) return { do: 'discard', parts }
    const attempt = nextAttempt(turn.answer)
    const plan = compactionDue(state, circumstances.request, circumstances.policy.compactionsMax)
    return plan === null ? { do: 'answer', step: turn.step, attempt } : { do: 'compact', plan, attempt }
  }
  const [call] = open
  if (call !== undefined) return nextCall(state, call, circumstances) // I2
  if (turn.step - turn.stepsFrom >= circumstances.policy.stepsMax) return { do: 'ask-for-steps' }
  const { repeatsMax } = circumstances.policy
  if (repeatsMax > 0 && turn.repeated.times >= repeatsMax) return { do: 'ask-for-steps' }
  return { do: 'begin-step', step: turn.step + 1 }
}

/** A call that needs a yes waits for it, unless its tool was allowed for the whole session. */
function nextCall({ allowedTools }: SessionFold, call: ToolCall, { approvalFor }: Circumstances): Command {
  const decision = call.approval?.decision ?? null
  if (call.sent.times > 0) return { do: 'call', call } // a denied question of its server ends in an answer
  if (decision === 'deny') return { do: 'refuse-call', call, reason: call.approval?.reason ?? null }
  if (decision !== null || allowedTools.includes(call.tool)) return { do: 'call', call }
  const why = approvalFor(call)
  return why === null ? { do: 'call', call } : { do: 'ask-approval', call, why }
}

/** A time further ahead than any wait can be was set before the clock was turned back: that wait is over. */
const isAhead = (at: number, now: number): boolean => at > now && at - now <= LIMITS.retryAfterMsMax

export function deadlineAt(
  turn: Pick<TurnFold, 'startedAt'>,
  policy: Pick<Circumstances['policy'], 'deadlineMs'>,
): number | null {
  return policy.deadlineMs === null ? null : Date.parse(turn.startedAt) + policy.deadlineMs
}

const isPastDeadline = (turn: TurnFold, { policy, now }: Circumstances): boolean => {
  const at = deadlineAt(turn, policy)
  return at !== null && now >= at
}
