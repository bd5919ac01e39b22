/** A fault in a situation, and what `decide` says about it. */
import type { Decision, FaultCategory, FaultInit, REASONS, RetryPolicy, Situation } from '@breakfall/faults'
import { answer, call, child, engine, NOW, runner } from './situation.ts'

export type Case = {
  readonly says: string
  readonly category: FaultCategory
  readonly fault?: FaultInit
  readonly situation?: Situation
  readonly policy?: Partial<RetryPolicy>
  readonly decision: Decision
}

const stop = (because: (typeof REASONS)[number]): Decision => ({ action: 'stop', because })
const park = (because: (typeof REASONS)[number], resumeAt: number | null = null): Decision => ({
  action: 'park',
  resumeAt,
  because,
})

export const CASES: readonly Case[] = [
  // retry
  {
    says: 'an interrupted stream is retried after a jittered wait',
    category: 'model_stream_interrupted',
    decision: { action: 'retry', delayMs: 250, because: 'transient' },
  },
  {
    says: 'a model that gets a call wrong in every attempt does not park the turn',
    category: 'tool_call_truncated',
    situation: answer({ attempt: 6 }),
    decision: stop('attempts_spent'),
  },
  {
    says: 'a call that the output limit cut is not asked for again unchanged: the next request says so',
    category: 'tool_call_truncated',
    fault: { reason: 'output_limit' },
    situation: answer({ cuts: 2 }),
    decision: { action: 'retry', delayMs: 0, because: 'output_too_long' },
  },
  {
    says: 'after three such requests in one step the turn stops',
    category: 'tool_call_truncated',
    fault: { reason: 'output_limit' },
    situation: answer({ cuts: 3, hasOtherFaults: true }),
    decision: stop('cuts_spent'),
  },
  {
    says: 'such a request counts as an attempt',
    category: 'tool_call_truncated',
    fault: { reason: 'output_limit' },
    situation: answer({ cuts: 1, attempt: 2 }),
    policy: { attemptsMax: 2 },
    decision: stop('attempts_spent'),
  },
  {
    says: 'a cut call in a conversation of the client is retried like any other failure',
    category: 'tool_call_truncated',
    fault: { reason: 'output_limit' },
    situation: answer({ canTell: false }),
    decision: { action: 'retry', delayMs: 250, because: 'transient' },
  },
  {
    says: 'a truncated call after failures of other kinds parks the turn',
    category: 'tool_call_truncated',
    situation: answer({ attempt: 6, hasOtherFaults: true }),
    decision: park('attempts_spent'),
  },
  {
    says: 'the wait doubles',
    category: 'model_unreachable',
    situation: answer({ attempt: 4 }),
    decision: { action: 'retry', delayMs: 2_000, because: 'transient' },
  },
  {
    says: 'the last attempt parks',
    category: 'model_unreachable',
    situation: answer({ attempt: 6 }),
    decision: park('attempts_spent'),
  },
  {
    says: 'the last attempt stops if parking is impossible',
    category: 'model_unreachable',
    situation: answer({ attempt: 6, parking: 'impossible' }),
    decision: stop('attempts_spent'),
  },
  {
    says: 'the last attempt stops if parking is off',
    category: 'model_unreachable',
    situation: answer({ attempt: 6 }),
    policy: { park: 'never' },
    decision: stop('attempts_spent'),
  },
  {
    says: 'the budget of the turn limits failures',
    category: 'model_server_error',
    situation: answer({ failures: 60 }),
    decision: park('failures_spent'),
  },
  {
    says: 'the budget of the turn limits waiting',
    category: 'model_server_error',
    situation: answer({ waitedMs: 30 * 60_000 }),
    decision: park('wait_spent'),
  },
  {
    says: 'a request with an unknown effect is not repeated',
    category: 'model_stream_interrupted',
    fault: { sideEffects: 'unknown' },
    decision: stop('side_effects_unknown'),
  },
  // Retry-After
  {
    says: 'a Retry-After is kept to the millisecond',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 7_001 },
    decision: { action: 'retry', delayMs: 7_001, because: 'retry_after' },
  },
  {
    says: 'a Retry-After shorter than the backoff does not shorten it',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 1 },
    situation: answer({ attempt: 5 }),
    decision: { action: 'retry', delayMs: 4_000, because: 'retry_after' },
  },
  {
    says: 'a Retry-After of exactly a minute is slept through',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_000 },
    decision: { action: 'retry', delayMs: 60_000, because: 'retry_after' },
  },
  {
    says: 'a Retry-After of more than a minute parks until then',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_001 },
    decision: park('retry_after_too_long', NOW + 60_001),
  },
  {
    says: 'a Retry-After of more than a minute stops if parking is impossible',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_001 },
    situation: answer({ parking: 'impossible' }),
    decision: stop('retry_after_too_long'),
  },
  {
    says: 'a Retry-After longer than the longest park stops',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 25 * 3_600_000 },
    decision: stop('park_time_spent'),
  },
  {
    says: 'a Retry-After past the deadline stops',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 90_000 },
    situation: answer({ deadlineAt: NOW + 80_000 }),
    decision: stop('deadline_passed'),
  },
  // park
  {
    says: 'an exhausted quota parks until it resets',
    category: 'model_quota_exhausted',
    fault: { retryAfterMs: 3_600_000 },
    decision: park('needs_action', NOW + 3_600_000),
  },
  {
    says: 'refused credentials park until someone acts',
    category: 'model_auth_failed',
    decision: park('needs_action'),
  },
  {
    says: 'refused credentials end a turn that may not park',
    category: 'model_auth_failed',
    policy: { park: 'never' },
    decision: stop('parking_off'),
  },
  { says: 'no network parks until it is back', category: 'network_down', decision: park('waiting_for_recovery') },
  {
    says: 'no network is retried in place if parking is impossible',
    category: 'network_down',
    situation: answer({ parking: 'impossible' }),
    decision: { action: 'retry', delayMs: 250, because: 'transient' },
  },
  {
    says: 'the twenty-first park stops',
    category: 'network_down',
    situation: answer({ parking: { used: 20, usedMs: 0 } }),
    decision: stop('parks_spent'),
  },
  {
    says: 'a day of parking stops',
    category: 'network_down',
    situation: answer({ parking: { used: 1, usedMs: 24 * 3_600_000 } }),
    decision: stop('park_time_spent'),
  },
  // resolve
  {
    says: 'a moved runner is looked up at once',
    category: 'runner_unreachable',
    decision: { action: 'resolve', delayMs: 0, because: 'moved' },
  },
  {
    says: 'later look-ups wait first',
    category: 'runner_identity_mismatch',
    situation: runner({ resolves: 3 }),
    decision: { action: 'resolve', delayMs: 1_000, because: 'moved' },
  },
  {
    says: 'after eight look-ups it parks',
    category: 'runner_unreachable',
    situation: runner({ resolves: 8 }),
    decision: park('resolves_spent'),
  },
  {
    says: 'after thirty seconds it parks',
    category: 'runner_unreachable',
    situation: runner({ resolves: 2, resolvingMs: 30_000 }),
    decision: park('resolves_spent'),
  },
  {
    says: 'no pause between look-ups goes beyond those thirty seconds',
    category: 'runner_unreachable',
    situation: runner({ resolves: 7, resolvingMs: 28_500 }),
    decision: { action: 'resolve', delayMs: 1_500, because: 'moved' },
  },
  {
    says: 'look-ups draw on the budget of the whole turn',
    category: 'runner_unreachable',
    situation: runner({ failures: 60 }),
    decision: park('failures_spent'),
  },
  {
    says: 'a call with an unknown effect is not made again',
    category: 'runner_unreachable',
    fault: { sideEffects: 'unknown' },
    decision: stop('side_effects_unknown'),
  },
  {
    says: 'an unreachable runner ends a turn that may not park',
    category: 'runner_unreachable',
    situation: runner({ resolves: 8 }),
    policy: { park: 'never' },
    decision: stop('resolves_spent'),
  },
  // restart
  {
    says: 'a crashed child is restarted after a wait',
    category: 'process_failed',
    decision: { action: 'restart', delayMs: 250, because: 'crashed' },
  },
  {
    says: 'the wait before a restart doubles',
    category: 'process_hung',
    situation: child({ failuresInARow: 3, failuresInWindow: 3 }),
    decision: { action: 'restart', delayMs: 1_000, because: 'crashed' },
  },
  {
    says: 'the fifth failure in the window is the end',
    category: 'process_failed',
    situation: child({ failuresInWindow: 5 }),
    policy: { failuresMax: 5 },
    decision: stop('restarts_spent'),
  },
  {
    says: 'a process that no restart can help is given up at once',
    category: 'process_failed',
    situation: child({ verdict: 'never' }),
    decision: stop('not_retryable'),
  },
  {
    says: 'a process that needs a change and never became ready is given up',
    category: 'process_failed',
    situation: child({ verdict: 'after_change', wasReady: false }),
    decision: stop('needs_action'),
  },
  {
    says: 'a process that needs a change but had been ready is restarted',
    category: 'process_failed',
    situation: child({ verdict: 'after_change' }),
    decision: { action: 'restart', delayMs: 250, because: 'crashed' },
  },
  {
    says: 'a failed start is retried if the evidence says that it is worth it',
    category: 'process_start_failed',
    situation: child({ verdict: 'worth_it', wasReady: false }),
    decision: { action: 'restart', delayMs: 250, because: 'crashed' },
  },
  {
    says: 'an answer from a process that is being restarted is asked for again',
    category: 'process_failed',
    situation: answer(),
    decision: { action: 'restart', delayMs: 250, because: 'crashed' },
  },
  // calls to a fixed address
  {
    says: 'a client calls a runner again at the same address',
    category: 'runner_unreachable',
    situation: call({ attempt: 2 }),
    decision: { action: 'retry', delayMs: 500, because: 'transient' },
  },
  {
    says: 'a client does not call the wrong runner again',
    category: 'runner_identity_mismatch',
    situation: call(),
    decision: stop('not_retryable'),
  },
  {
    says: 'a patient call to a server that is away is bounded by time, not by count',
    category: 'model_unreachable',
    situation: call({ attempt: 40, awayMs: 119_000, isPatient: true }),
    decision: { action: 'retry', delayMs: 1_000, because: 'transient' },
  },
  {
    says: 'a patient call stops when patience is spent',
    category: 'model_unreachable',
    situation: call({ attempt: 2, awayMs: 120_000, isPatient: true }),
    decision: { action: 'stop', because: 'patience_spent' },
  },
  {
    says: 'a patient call counts attempts that the server may be working on',
    category: 'model_stream_stalled',
    situation: call({ attempt: 6, isPatient: true }),
    decision: { action: 'stop', because: 'attempts_spent' },
  },
  {
    says: 'a client stops after its last attempt',
    category: 'daemon_unreachable',
    situation: call({ attempt: 6 }),
    decision: stop('attempts_spent'),
  },
  {
    says: 'a client stops when the server stays away for too long',
    category: 'daemon_unreachable',
    situation: call({ awayMs: 29_900 }),
    policy: { waitMsMax: 30_000 },
    decision: stop('wait_spent'),
  },
  {
    says: 'a client does not retry what needs a person',
    category: 'model_auth_failed',
    situation: call(),
    decision: stop('needs_action'),
  },
  {
    says: 'a client retries while the network is down',
    category: 'network_down',
    situation: call(),
    decision: { action: 'retry', delayMs: 250, because: 'transient' },
  },
  {
    says: 'a client does not sit through a long Retry-After',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_001 },
    situation: call(),
    decision: stop('retry_after_too_long'),
  },
  {
    says: 'a client does not repeat a call with an unknown effect',
    category: 'daemon_unreachable',
    fault: { sideEffects: 'unknown' },
    situation: call(),
    decision: stop('side_effects_unknown'),
  },
  // the daemon's own work
  { says: 'a full disk parks', category: 'journal_full', situation: engine(), decision: park('waiting_for_recovery') },
  {
    says: 'a full disk ends a turn that may not park',
    category: 'journal_full',
    situation: engine(),
    policy: { park: 'never' },
    decision: stop('parking_off'),
  },
  {
    says: 'nothing is retried in place by the engine',
    category: 'model_overloaded',
    situation: engine(),
    decision: park('attempts_spent'),
  },
  // compact
  {
    says: 'an overflow is compacted',
    category: 'model_context_overflow',
    decision: { action: 'compact', delayMs: 0, because: 'context_too_long' },
  },
  {
    says: 'an overflow stops the turn if nothing is left to shorten',
    category: 'model_context_overflow',
    situation: answer({ canCompact: false }),
    decision: stop('cannot_compact'),
  },
  {
    says: 'an overflow is compacted as often as the policy allows',
    category: 'model_context_overflow',
    situation: answer({ compactions: 49 }),
    decision: { action: 'compact', delayMs: 0, because: 'context_too_long' },
  },
  {
    says: 'an overflow stops the turn after that',
    category: 'model_context_overflow',
    situation: answer({ compactions: 50 }),
    decision: stop('compactions_spent'),
  },
  {
    says: 'a turn without steps left asks a person',
    category: 'steps_spent',
    situation: { at: 'limit', because: 'steps_spent', deadlineAt: null },
    decision: park('steps_spent'),
  },
  // never, cancelled, deadline
  { says: 'a refused request is not retried', category: 'model_bad_request', decision: stop('not_retryable') },
  { says: 'an unknown outcome is never repeated', category: 'exec_outcome_unknown', decision: stop('not_retryable') },
  { says: 'a cancel stops', category: 'cancelled', decision: stop('cancelled') },
  {
    says: 'nothing starts at the deadline',
    category: 'model_overloaded',
    situation: answer({ deadlineAt: NOW }),
    decision: stop('deadline_passed'),
  },
  {
    says: 'nothing that would wait past the deadline starts',
    category: 'model_overloaded',
    situation: answer({ deadlineAt: NOW + 249 }),
    decision: stop('deadline_passed'),
  },
]
