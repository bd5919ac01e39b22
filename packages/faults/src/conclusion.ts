/** Puts a decision into a fault: what Breakfall does next, or why it stopped. */
import type { Decision, Reason } from './decision.ts'
import type { Fault } from './fault.ts'
import type { FaultCategory } from './categories.ts'

/** `attempts`: how many were made, if that is known. A park is put into words by the daemon, which knows what the turn waits for. */
export function withDecision(fault: Fault, decision: Decision, attempts?: number): Fault {
  const stopped = decision.action === 'stop' ? decision.because : undefined
  const action = decision.action === 'stop' ? stopText(decision.because, attempts) : NEXT[decision.action]
  const advice = stopped === undefined ? undefined : ONCE_STOPPED[fault.category]
  const message = { ...(action === undefined ? {} : { action }), ...(advice === undefined ? {} : { advice }) }
  return fault.with({ stopped, message })
}

// ---- details ----

const NEXT: Readonly<Record<Exclude<Decision['action'], 'stop'>, string | undefined>> = {
  retry: 'Breakfall will retry.',
  resolve: 'Breakfall will look up the runner again.',
  restart: 'Breakfall will retry once the process has restarted.',
  compact: 'Breakfall will shorten the conversation and ask again.',
  fallback: 'Breakfall will ask the next model.',
  park: undefined,
}

/** What to do once it is over, where the usual advice helps only before. */
const ONCE_STOPPED: Partial<Readonly<Record<FaultCategory, string>>> = {
  approval_needed: 'It can no longer be approved; send another prompt to try again.',
  steps_spent: 'Send another prompt to continue; --steps-max (stepsMax in a config or a request) allows more.',
}

function stopText(because: Reason, attempts: number | undefined): string | undefined {
  const why = STOPPED[because]
  if (because === 'side_effects_unknown') return `Breakfall did not retry: ${why}.`
  if (because === 'attempts_spent' && attempts !== undefined)
    return `Breakfall stopped after ${attempts === 1 ? 'one attempt' : `${attempts} attempts`}.`
  return why === undefined ? undefined : `Breakfall stopped: ${why}.`
}

/** Reasons that are not here are clear from what happened. */
const STOPPED: Partial<Readonly<Record<Reason, string>>> = {
  attempts_spent: 'all attempts are used up',
  patience_spent: 'the model server did not become available in time',
  failures_spent: 'this turn has failed too often',
  wait_spent: 'the time for waiting is used up',
  retry_after_too_long: 'the server asks for a longer wait than Breakfall sits through',
  deadline_passed: 'the next attempt would come after the deadline',
  compactions_spent: 'this turn was shortened as often as its compactionsMax allows',
  cannot_compact: 'nothing is left to shorten: the prompts and the newest step stay whole',
  cuts_spent: 'the model wrote too much at once again and again, although Breakfall said so',
  parking_off: 'parking is off',
  parks_spent: 'the turn was parked as often as allowed',
  park_time_spent: 'the turn was parked for as long as allowed',
  side_effects_unknown: 'the call may have had an effect already',
}
