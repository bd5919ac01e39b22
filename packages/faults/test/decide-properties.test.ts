/** What holds for every fault, situation and policy: safe, bounded, and always with a reason out of the closed list. */
import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import {
  backoffMs,
  decide,
  ELSEWHERE,
  Fault,
  FAULT_CATEGORIES,
  type FaultReport,
  LIMITS,
  probeDelayMs,
  REASONS,
  type RetryPolicy,
  SIDE_EFFECTS,
  type Situation,
} from '@breakfall/faults'
import { NOW } from './situation.ts'

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

const mayHelp = ({ category }: FaultReport): boolean =>
  category in ELSEWHERE && ELSEWHERE[category as keyof typeof ELSEWHERE]

test('whatever the situation: a reason of the list, no unsafe repeat, no shortened wait, no wait past the deadline', () => {
  fc.assert(
    fc.property(faults, situations, policies, (fault, at, policy) => {
      Object.freeze(fault)
      Object.freeze(at)
      const decision = decide(fault, at, Object.freeze(policy), NOW)
      assert.deepEqual(decide(fault, at, policy, NOW), decision, 'pure')
      assert.ok(REASONS.includes(decision.because))
      const { action } = decision
      if (fault.class === 'cancelled') assert.equal(action, 'stop')
      if (fault.next === 'never') assert.ok(action === 'stop' || action === 'fallback')
      if (fault.sideEffects === 'unknown') assert.ok(!['retry', 'resolve', 'compact', 'fallback'].includes(action))
      const isEnd = action === 'park' || action === 'stop'
      const isPast = at.deadlineAt != null && NOW >= at.deadlineAt
      if (isEnd && !isPast && at.failures < policy.failuresMax && fault.sideEffects !== 'unknown' && mayHelp(fault))
        assert.equal(at.fallbacks, 0, 'it ends only where there is nobody else to ask')
      if (action === 'park') {
        assert.ok(at.canPark && policy.park === 'auto')
        assert.equal(decision.resumeAt, fault.retryAfterMs === undefined ? null : NOW + fault.retryAfterMs)
        return
      }
      if (action === 'stop') return
      assert.ok(Number.isSafeInteger(decision.delayMs) && decision.delayMs >= 0)
      if (at.deadlineAt != null) assert.ok(NOW + decision.delayMs <= at.deadlineAt)
      if (action === 'fallback') {
        assert.ok((at.fallbacks ?? 0) > 0 && at.failures < policy.failuresMax && mayHelp(fault))
        assert.equal(decision.delayMs, 0)
      }
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
