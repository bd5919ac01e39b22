/** The one place that decides about trying again: safe, bounded, and always with a reason out of the closed list. */
import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import {
  backoffMs,
  decide,
  type Decision,
  Fault,
  FAULT_CATEGORIES,
  type FaultCategory,
  type FaultInit,
  FAULTS,
  LIMITS,
  POLICY_DEFAULTS,
  probeDelayMs,
  REASONS,
  type RetryPolicy,
  SIDE_EFFECTS,
  type Situation,
} from '@breakfall/faults'

const NOW = 1_800_000_000_000

const situation = (more: Partial<Situation> = {}): Situation => ({
  attempt: 1,
  failures: 1,
  waitedMs: 0,
  dice: 0.5,
  canPark: true,
  ...more,
})

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
    says: 'the next model comes before parking',
    category: 'model_overloaded',
    situation: { attempt: 6, fallbacks: 1 },
    decision: { action: 'fallback', delayMs: 0, because: 'next_model' },
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

const counts = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max })
const policies: fc.Arbitrary<RetryPolicy> = fc.record({
  attemptsMax: fc.integer({ min: 1, max: 10 }),
  failuresMax: fc.integer({ min: 1, max: 80 }),
  waitMsMax: counts(2_000_000),
  park: fc.constantFrom('auto' as const, 'never' as const),
  parkMsMax: counts(100_000_000),
  backoffMs: counts(60_000),
})
const faults = fc
  .record({
    category: fc.constantFrom(...FAULT_CATEGORIES),
    sideEffects: fc.constantFrom(...SIDE_EFFECTS),
    retryAfterMs: fc.option(counts(100_000_000), { nil: undefined }),
  })
  .map(({ category, ...init }) => new Fault(category, { ...init, at: '2026-11-15T12:00:00.000Z' }).report)
const situations: fc.Arbitrary<Situation> = fc.record({
  attempt: fc.integer({ min: 1, max: 12 }),
  failures: fc.integer({ min: 1, max: 90 }),
  waitedMs: counts(2_000_000),
  dice: fc.double({ min: 0, max: 1, noNaN: true }),
  canPark: fc.boolean(),
  parks: counts(25),
  parkedMs: counts(100_000_000),
  compacted: fc.boolean(),
  restarts: counts(7),
  resolves: counts(10),
  resolvingMs: counts(40_000),
  fallbacks: counts(2),
  deadlineAt: fc.option(fc.integer({ min: NOW - 1_000, max: NOW + 200_000 }), { nil: null }),
})

test('whatever the situation: a reason of the list, no unsafe repeat, no shortened wait, no wait past the deadline', () => {
  fc.assert(
    fc.property(faults, situations, policies, (fault, at, policy) => {
      Object.freeze(fault)
      Object.freeze(at)
      const decision = decide(fault, at, Object.freeze(policy), NOW)
      assert.deepEqual(decide(fault, at, policy, NOW), decision, 'pure')
      assert.ok(REASONS.includes(decision.because))
      const { action } = decision
      if (fault.next === 'never' || fault.class === 'cancelled') assert.equal(action, 'stop')
      if (fault.sideEffects === 'unknown') assert.ok(!['retry', 'resolve', 'compact', 'fallback'].includes(action))
      if (action === 'park') {
        assert.ok(at.canPark && policy.park === 'auto')
        assert.equal(decision.resumeAt, fault.retryAfterMs === undefined ? null : NOW + fault.retryAfterMs)
        return
      }
      if (action === 'stop') return
      assert.ok(Number.isSafeInteger(decision.delayMs) && decision.delayMs >= 0)
      if (at.deadlineAt != null) assert.ok(NOW + decision.delayMs <= at.deadlineAt)
      if (action === 'retry') {
        assert.ok(at.attempt < policy.attemptsMax && at.failures < policy.failuresMax)
        assert.ok(at.waitedMs + decision.delayMs <= policy.waitMsMax)
        assert.ok(decision.delayMs >= (fault.retryAfterMs ?? 0))
        assert.ok(decision.delayMs <= Math.max(LIMITS.backoffMsMax, fault.retryAfterMs ?? 0))
      }
    }),
    { numRuns: 2_000 },
  )
})

test('full jitter: from nothing to the doubled ceiling, never above 30 s, spread evenly', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: -5, max: 60 }),
      counts(100_000),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (attempt, base, dice) => {
        const ceiling = Math.min(30_000, base * 2 ** Math.max(0, attempt - 1))
        const delay = backoffMs(attempt, { backoffMs: base }, dice)
        assert.ok(delay >= 0 && delay <= ceiling)
        assert.ok(Math.abs(delay - dice * ceiling) <= 0.5)
      },
    ),
  )
  assert.deepEqual(
    [0, 0.25, 1].map((dice) => backoffMs(3, { backoffMs: 500 }, dice)),
    [0, 500, 2_000],
  )
  assert.equal(backoffMs(1_000_000, { backoffMs: 0 }, 1), 0)
  assert.equal(backoffMs(1, { backoffMs: 500 }, NaN), 250, 'broken dice do not make a broken wait')
})

test('a parked turn is looked at after 5 s, then ever later up to a minute, a fifth either way', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 50].map((probe) => probeDelayMs(probe, 0.5)),
    [5_000, 10_000, 20_000, 40_000, 60_000, 60_000],
  )
  assert.deepEqual(
    [0, 1].map((dice) => probeDelayMs(0, dice)),
    [4_000, 6_000],
  )
})

test('any sequence of faults comes to an end or to a park, and twenty parks to an end', () => {
  fc.assert(
    fc.property(fc.array(faults, { minLength: 1, maxLength: 6 }), policies, fc.boolean(), (script, policy, canPark) => {
      // A turn that never gets further: the same faults again and again, each decision carried out as the engine does.
      const state = {
        attempt: 0,
        failures: 0,
        waitedMs: 0,
        parks: 0,
        restarts: 0,
        resolves: 0,
        fallbacks: 2,
        compacted: false,
      }
      const rounds = 2 * 21 * (policy.attemptsMax + LIMITS.resolvesMax + LIMITS.restartsMax + 10) * 3
      for (let round = 0; round < rounds; round += 1) {
        const fault = script[round % script.length] ?? script[0]
        assert.ok(fault)
        state.attempt += 1
        state.failures += 1
        const decision = decide(fault, { ...state, dice: 0.5, canPark }, policy, NOW)
        if (decision.action === 'stop') return
        if (decision.action === 'park') Object.assign(state, { parks: state.parks + 1, attempt: 0, resolves: 0 })
        else state.waitedMs += decision.delayMs
        if (decision.action === 'fallback') Object.assign(state, { fallbacks: state.fallbacks - 1, attempt: 0 })
        if (decision.action === 'restart') state.restarts += 1
        if (decision.action === 'resolve') state.resolves += 1
        if (decision.action === 'compact') state.compacted = true
      }
      assert.fail(`still going after ${rounds} faults: ${JSON.stringify(state)}`)
    }),
    { numRuns: 500 },
  )
})

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
