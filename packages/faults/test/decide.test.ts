/** The one place that decides about trying again, case by case. What holds in every case is in `decide-properties.test.ts`. */
import assert from 'node:assert/strict'
import test from 'node:test'
import {
  decide,
  type Decision,
  Fault,
  FAULT_CATEGORIES,
  type FaultCategory,
  type FaultInit,
  FAULTS,
  POLICY_DEFAULTS,
  type REASONS,
  type RetryPolicy,
  type Situation,
} from '@breakfall/faults'
import { NOW, situation } from './situation.ts'

type Case = {
  readonly says: string
  readonly category: FaultCategory
  readonly fault?: FaultInit
  readonly situation?: Partial<Situation>
  readonly policy?: Partial<RetryPolicy>
  readonly decision: Decision
}

const stop = (because: (typeof REASONS)[number]): Decision => ({ action: 'stop', because })
const park = (because: (typeof REASONS)[number], resumeAt: number | null = null): Decision => ({
  action: 'park',
  resumeAt,
  because,
})

const CASES: readonly Case[] = [
  // retry
  {
    says: 'a first break is tried again after a jittered wait',
    category: 'model_stream_interrupted',
    decision: { action: 'retry', delayMs: 250, because: 'transient' },
  },
  {
    says: 'a model that gets a call wrong in every try is not waited for',
    category: 'tool_call_truncated',
    situation: { attempt: 6 },
    decision: stop('attempts_spent'),
  },
  {
    says: 'one whose call was cut in the last try, after others that failed otherwise, is waited for',
    category: 'tool_call_truncated',
    situation: { attempt: 6, isMixed: true },
    decision: park('attempts_spent'),
  },
  {
    says: 'the wait doubles',
    category: 'model_unreachable',
    situation: { attempt: 4 },
    decision: { action: 'retry', delayMs: 2_000, because: 'transient' },
  },
  {
    says: 'the last attempt parks',
    category: 'model_unreachable',
    situation: { attempt: 6 },
    decision: park('attempts_spent'),
  },
  {
    says: 'the last attempt stops where nobody can park',
    category: 'model_unreachable',
    situation: { attempt: 6, canPark: false },
    decision: stop('attempts_spent'),
  },
  {
    says: 'the last attempt stops where parking is off',
    category: 'model_unreachable',
    situation: { attempt: 6 },
    policy: { park: 'never' },
    decision: stop('attempts_spent'),
  },
  {
    says: 'the budget of the whole turn counts failures',
    category: 'model_server_error',
    situation: { failures: 60 },
    decision: park('failures_spent'),
  },
  {
    says: 'the budget of the whole turn counts waiting',
    category: 'model_server_error',
    situation: { waitedMs: 30 * 60_000 },
    decision: park('wait_spent'),
  },
  {
    says: 'an unknown effect is not repeated',
    category: 'model_stream_interrupted',
    fault: { sideEffects: 'unknown' },
    decision: stop('side_effects_unknown'),
  },
  // Retry-After
  {
    says: 'an asked-for wait is kept to the millisecond',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 7_001 },
    decision: { action: 'retry', delayMs: 7_001, because: 'retry_after' },
  },
  {
    says: 'an asked-for wait shorter than ours does not shorten ours',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 1 },
    situation: { attempt: 5 },
    decision: { action: 'retry', delayMs: 4_000, because: 'retry_after' },
  },
  {
    says: 'exactly a minute is slept through',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_000 },
    decision: { action: 'retry', delayMs: 60_000, because: 'retry_after' },
  },
  {
    says: 'longer than a minute parks until then',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_001 },
    decision: park('retry_after_too_long', NOW + 60_001),
  },
  {
    says: 'too long and nobody can park: the end',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 60_001 },
    situation: { canPark: false },
    decision: stop('retry_after_too_long'),
  },
  {
    says: 'longer than the longest park is the end',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 25 * 3_600_000 },
    decision: stop('park_time_spent'),
  },
  {
    says: 'past the deadline is the end',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 90_000 },
    situation: { deadlineAt: NOW + 80_000 },
    decision: stop('deadline_passed'),
  },
  // park
  {
    says: 'a used-up quota parks until it resets',
    category: 'model_quota_exhausted',
    fault: { retryAfterMs: 3_600_000 },
    decision: park('needs_action', NOW + 3_600_000),
  },
  {
    says: 'refused credentials park until somebody acts',
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
    says: 'no network is tried again in place where nobody can park',
    category: 'network_down',
    situation: { canPark: false },
    decision: { action: 'retry', delayMs: 250, because: 'transient' },
  },
  { says: 'a full disk parks', category: 'journal_full', decision: park('waiting_for_recovery') },
  {
    says: 'the twenty-first park is the end',
    category: 'network_down',
    situation: { parks: 20 },
    decision: stop('parks_spent'),
  },
  {
    says: 'a day of parking is the end',
    category: 'network_down',
    situation: { parkedMs: 24 * 3_600_000 },
    decision: stop('park_time_spent'),
  },
  // resolve
  {
    says: 'a moved runner is looked up at once',
    category: 'runner_unreachable',
    decision: { action: 'resolve', delayMs: 0, because: 'moved' },
  },
  {
    says: 'then after a wait',
    category: 'runner_identity_mismatch',
    situation: { resolves: 3 },
    decision: { action: 'resolve', delayMs: 1_000, because: 'moved' },
  },
  {
    says: 'eight look-ups are enough, then it parks',
    category: 'runner_unreachable',
    situation: { resolves: 8 },
    decision: park('resolves_spent'),
  },
  {
    says: 'thirty seconds are enough, then it parks',
    category: 'runner_unreachable',
    situation: { resolves: 2, resolvingMs: 30_000 },
    decision: park('resolves_spent'),
  },
  {
    says: 'no pause between look-ups goes beyond those thirty seconds',
    category: 'runner_unreachable',
    situation: { resolves: 7, resolvingMs: 28_500 },
    decision: { action: 'resolve', delayMs: 1_500, because: 'moved' },
  },
  {
    says: 'look-ups draw on the budget of the whole turn',
    category: 'runner_unreachable',
    situation: { failures: 60 },
    decision: park('failures_spent'),
  },
  {
    says: 'a runner that went away with the effect unknown is not asked again',
    category: 'runner_unreachable',
    fault: { sideEffects: 'unknown' },
    decision: stop('side_effects_unknown'),
  },
  {
    says: 'an unreachable runner ends a turn that may not park',
    category: 'runner_unreachable',
    situation: { resolves: 8 },
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
    says: 'and later the next time',
    category: 'process_hung',
    situation: { restarts: 2 },
    decision: { action: 'restart', delayMs: 1_000, because: 'crashed' },
  },
  {
    says: 'five restarts are enough',
    category: 'process_failed',
    situation: { restarts: 5 },
    decision: stop('restarts_spent'),
  },
  // compact
  {
    says: 'an overflow is compacted',
    category: 'model_context_overflow',
    decision: { action: 'compact', delayMs: 0, because: 'context_too_long' },
  },
  {
    says: 'once',
    category: 'model_context_overflow',
    situation: { compacted: true },
    decision: stop('already_compacted'),
  },
  // never, cancelled, deadline
  { says: 'a refused request is refused', category: 'model_bad_request', decision: stop('not_retryable') },
  { says: 'an unknown outcome is never repeated', category: 'exec_outcome_unknown', decision: stop('not_retryable') },
  { says: 'a cancel is the end', category: 'cancelled', decision: stop('cancelled') },
  {
    says: 'nothing is begun at the deadline',
    category: 'model_overloaded',
    situation: { deadlineAt: NOW },
    decision: stop('deadline_passed'),
  },
  {
    says: 'nothing is begun that would wait past it',
    category: 'model_overloaded',
    situation: { deadlineAt: NOW + 249 },
    decision: stop('deadline_passed'),
  },
]

for (const { says, category, decision, ...rest } of CASES) {
  test(`${category}: ${says}`, () => {
    const { report } = new Fault(category, rest.fault)
    assert.deepEqual(decide(report, situation(rest.situation), { ...POLICY_DEFAULTS, ...rest.policy }, NOW), decision)
  })
}

test('every category has a decision, and it is the one its row announces', () => {
  const first: Readonly<Record<string, string>> = {
    never: 'stop',
    retry: 'retry',
    resolve: 'resolve',
    restart: 'restart',
    compact: 'compact',
    park: 'park',
  }
  for (const category of FAULT_CATEGORIES) {
    const { report } = new Fault(category)
    assert.equal(decide(report, situation(), POLICY_DEFAULTS, NOW).action, first[FAULTS[category].next], category)
  }
})
