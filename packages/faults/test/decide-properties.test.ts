/** What holds for every fault, situation and policy: safe, bounded, and always with a reason from the closed list. */
import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import {
  decide,
  Fault,
  FAULT_CATEGORIES,
  type FaultReport,
  LIMITS,
  REASONS,
  type RetryPolicy,
  SIDE_EFFECTS,
  type Situation,
} from '@breakfall/faults'
import { costsNothing, probeDelayMs } from '@breakfall/faults/internal'
import { backoffMs } from '../src/backoff.ts'
import { MAY_ASK_NEXT_MODEL } from '../src/elsewhere.ts'
import { NOW } from './situation.ts'

const counts = (max: number): fc.Arbitrary<number> => fc.integer({ min: 0, max })
const policies: fc.Arbitrary<RetryPolicy> = fc.record({
  attemptsMax: fc.integer({ min: 1, max: 10 }),
  patienceMs: fc.oneof(fc.constant(0), counts(200_000)),
  failuresMax: fc.integer({ min: 1, max: 80 }),
  waitMsMax: counts(2_000_000),
  park: fc.constantFrom('auto' as const, 'never' as const),
  parkMsMax: counts(100_000_000),
  backoffMs: counts(60_000),
  compactionsMax: counts(60),
})
const faults = fc
  .record({
    category: fc.constantFrom(...FAULT_CATEGORIES),
    sideEffects: fc.constantFrom(...SIDE_EFFECTS),
    retryAfterMs: fc.option(counts(100_000_000), { nil: undefined }),
  })
  .map(({ category, ...init }) => new Fault(category, { ...init, at: '2026-11-15T12:00:00.000Z' }).report)
const dice = fc.double({ min: 0, max: 1, noNaN: true })
const turnFacts = {
  failures: fc.integer({ min: 1, max: 90 }),
  waitedMs: counts(2_000_000),
  parking: fc.oneof(fc.constant('impossible' as const), fc.record({ used: counts(25), usedMs: counts(100_000_000) })),
  deadlineAt: fc.option(fc.integer({ min: NOW - 1_000, max: NOW + 200_000 }), { nil: null }),
}
const situations: fc.Arbitrary<Situation> = fc.oneof(
  fc.record({
    at: fc.constant('answer' as const),
    ...turnFacts,
    attempt: fc.integer({ min: 1, max: 12 }),
    contentStarted: fc.boolean(),
    free: fc.record({ attempts: fc.constant(0), failures: fc.constant(0) }),
    outage: fc.record({ failures: counts(50), ms: counts(200_000) }),
    compactions: counts(60),
    canCompact: fc.boolean(),
    cuts: counts(5),
    canTell: fc.boolean(),
    hasOtherFaults: fc.boolean(),
    fallbacks: counts(2),
    dice,
  }),
  fc.record({
    at: fc.constant('runner' as const),
    ...turnFacts,
    resolves: counts(10),
    resolvingMs: counts(40_000),
    dice,
  }),
  fc.record({ at: fc.constant('engine' as const), ...turnFacts }),
  fc.record({
    at: fc.constant('call' as const),
    attempt: fc.integer({ min: 1, max: 12 }),
    awayMs: counts(2_000_000),
    dice,
  }),
  fc.record({
    at: fc.constant('process' as const),
    failuresInARow: fc.integer({ min: 1, max: 90 }),
    failuresInWindow: fc.integer({ min: 1, max: 90 }),
    wasReady: fc.boolean(),
    verdict: fc.constantFrom('never' as const, 'after_change' as const, 'worth_it' as const),
    dice,
  }),
)

const mayHelp = ({ category }: FaultReport): boolean =>
  Object.entries(MAY_ASK_NEXT_MODEL).some(([c, may]) => c === category && may)

test('in every situation: a reason from the list, no unsafe repeat, no shortened wait, no wait past the deadline', () => {
  fc.assert(
    fc.property(faults, situations, policies, (fault, at, policy) => {
      Object.freeze(fault)
      Object.freeze(at)
      const decision = decide(fault, at, Object.freeze(policy), NOW)
      assert.deepEqual(decide(fault, at, policy, NOW), decision, 'pure')
      assert.ok(REASONS.includes(decision.because))
      const { action } = decision
      if (fault.class === 'cancelled') assert.equal(action, 'stop')
      if (fault.sideEffects === 'unknown') assert.ok(!['retry', 'resolve', 'compact', 'fallback'].includes(action))
      if (at.at !== 'process' && fault.next === 'never') assert.ok(action === 'stop' || action === 'fallback')
      if (action === 'park') {
        assert.ok(at.at === 'answer' || at.at === 'runner' || at.at === 'engine')
        assert.ok(at.parking !== 'impossible' && policy.park === 'auto')
        assert.equal(decision.resumeAt, fault.retryAfterMs === undefined ? null : NOW + fault.retryAfterMs)
        return
      }
      if (action === 'stop') return
      assert.ok(Number.isSafeInteger(decision.delayMs) && decision.delayMs >= 0)
      if ('deadlineAt' in at && at.deadlineAt !== null) assert.ok(NOW + decision.delayMs <= at.deadlineAt)
      const isFree = at.at === 'answer' && policy.patienceMs > 0 && costsNothing(fault, at)
      if (action === 'retry') {
        assert.ok(at.at === 'answer' || at.at === 'call')
        if (isFree) assert.ok(at.outage.ms < policy.patienceMs || fault.retryAfterMs !== undefined)
        else assert.ok(at.attempt < policy.attemptsMax)
        assert.ok((at.at === 'call' ? at.awayMs : at.waitedMs) + decision.delayMs <= policy.waitMsMax)
        assert.ok(decision.delayMs >= (fault.retryAfterMs ?? 0))
        assert.ok(decision.delayMs <= Math.max(LIMITS.backoffMsMax, fault.retryAfterMs ?? 0))
      }
      if (action === 'restart') assert.ok(at.at === 'process' || at.at === 'answer')
      if (action === 'resolve') assert.equal(at.at, 'runner')
      if (action === 'compact' || action === 'fallback') assert.equal(at.at, 'answer')
      const isBounded = action !== 'compact' && !(action === 'retry' && isFree) // time bounds the free ones
      if ('failures' in at && isBounded) assert.ok(at.failures < policy.failuresMax)
    }),
    { numRuns: 4_000 },
  )
})

test('an answer fails over exactly when this model is done for, another is left and may do better', () => {
  const answers = situations.filter((at) => at.at === 'answer')
  fc.assert(
    fc.property(faults, answers, policies, (fault, at, policy) => {
      const { action } = decide(fault, at, policy, NOW)
      const alone = decide(fault, { ...at, fallbacks: 0 }, policy, NOW).action
      const isPast = at.deadlineAt !== null && NOW >= at.deadlineAt
      const mayAsk = at.fallbacks > 0 && at.failures < policy.failuresMax && fault.sideEffects !== 'unknown'
      // Patience is for the last model: while another is left, attempts that cost nothing are counted, too.
      const isFree = policy.patienceMs > 0 && costsNothing(fault, at)
      const isDone =
        alone === 'park' || alone === 'stop' || (alone === 'retry' && isFree && at.attempt >= policy.attemptsMax)
      const failsOver = isDone && !isPast && mayAsk && mayHelp(fault)
      assert.equal(action, failsOver ? 'fallback' : alone)
    }),
    { numRuns: 2_000 },
  )
})

test('full jitter: evenly between zero and a ceiling that doubles, never above 30 s', () => {
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
  assert.equal(backoffMs(1, { backoffMs: 500 }, NaN), 250, 'a broken random number does not break the wait')
})

test('a parked turn is checked after 5 s, then at growing intervals of up to a minute, give or take a fifth', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 50].map((probe) => probeDelayMs(probe, 0.5)),
    [5_000, 10_000, 20_000, 40_000, 60_000, 60_000],
  )
  assert.deepEqual(
    [0, 1].map((dice) => probeDelayMs(0, dice)),
    [4_000, 6_000],
  )
})

test('any sequence of faults leads to a stop or a park, and twenty parks lead to a stop', () => {
  fc.assert(
    fc.property(fc.array(faults, { minLength: 1, maxLength: 6 }), policies, fc.boolean(), (script, policy, canPark) => {
      // A turn without progress: the same faults over and over, each decision carried out as the engine does.
      const used = { attempt: 0, failures: 0, waitedMs: 0, parks: 0, resolves: 0, fallbacks: 2, compactions: 0 }
      const free = { attempts: 0, failures: 0 }
      let outage = { failures: 0, since: NOW }
      let now = NOW
      const perStep = policy.attemptsMax + LIMITS.resolvesMax + 10 + policy.patienceMs / LIMITS.freeBackoffMsFirst
      const rounds = 2 * 21 * perStep * 3 * 10 + policy.failuresMax
      for (let round = 0; round < rounds; round += 1) {
        const fault = script[round % script.length] ?? script[0]
        assert.ok(fault)
        used.attempt += 1
        used.failures += 1
        const { attempt, failures, waitedMs, resolves, fallbacks, compactions } = used
        const parking = canPark ? { used: used.parks, usedMs: 0 } : ('impossible' as const)
        const turn = { failures, waitedMs, parking, deadlineAt: null, dice: 0.5 }
        const contentStarted = fault.category !== 'model_overloaded' && fault.category !== 'model_unreachable'
        const away = { failures: outage.failures, ms: outage.failures === 0 ? 0 : now - outage.since }
        const situation: Situation =
          fault.boundary === 'runner'
            ? { at: 'runner', ...turn, resolves, resolvingMs: 0 }
            : {
                at: 'answer',
                ...turn,
                attempt,
                contentStarted,
                free: { ...free },
                outage: away,
                fallbacks,
                compactions,
                canCompact: true,
                cuts: 0,
                canTell: true,
                hasOtherFaults: false,
              }
        const decision = decide(fault, situation, policy, now)
        if (decision.action === 'stop') return
        const startsOver = decision.action === 'park' || decision.action === 'fallback'
        const isFree = !startsOver && costsNothing(fault, { contentStarted })
        if (isFree) {
          outage = { failures: outage.failures + 1, since: outage.failures === 0 ? now : outage.since }
          free.attempts += 1
          free.failures += 1
        } else outage = { failures: 0, since: now }
        if (startsOver) free.attempts = 0
        if (decision.action === 'park') Object.assign(used, { parks: used.parks + 1, attempt: 0, resolves: 0 })
        else {
          used.waitedMs += decision.delayMs
          now += decision.delayMs
        }
        if (decision.action === 'fallback') Object.assign(used, { fallbacks: fallbacks - 1, attempt: 0 })
        if (decision.action === 'resolve') used.resolves += 1
        if (decision.action === 'compact') used.compactions += 1
      }
      assert.fail(`still running after ${rounds} faults: ${JSON.stringify(used)}`)
    }),
    { numRuns: 500 },
  )
})

test('a child that keeps failing is given up within its window', () => {
  fc.assert(
    fc.property(faults, policies, (fault, policy) => {
      if (fault.class === 'cancelled') return
      for (let failures = 1; failures <= policy.failuresMax; failures += 1) {
        const counts = { failuresInARow: failures, failuresInWindow: failures }
        const situation = { at: 'process', ...counts, wasReady: true, verdict: 'worth_it', dice: 0.5 } as const
        const { action } = decide(fault, situation, policy, NOW)
        assert.equal(action, failures < policy.failuresMax ? 'restart' : 'stop')
      }
    }),
  )
})
