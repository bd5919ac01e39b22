/** A turn whose every attempt fails ends, whatever fails and however often: by counts, and on a clock that the test moves. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decide, Fault, fullPolicy, LIMITS, type RetryPolicy } from '@breakfall/faults'
import {
  initialAnswer,
  type Ladder,
  type MachineEvent,
  nextRung,
  reduceAnswer,
  rungEvent,
} from '@breakfall/model/internal'
import { diceOf } from '../../../test/kit/dice.ts'
import { resumeTime } from '../src/turn/wait.ts'

type Failure = { readonly fault: Fault; readonly contentStarted: boolean }

const FAULT_EVERY_MS = 700
const PROBE_MS = 5_000
const HOUR_MS = 3_600_000
const ATTEMPTS_MAX = 5_000

const FAILURES = {
  'in its text': { fault: new Fault('model_stream_interrupted', { phase: 'stream' }), contentStarted: true },
  'before its text': { fault: new Fault('model_stream_interrupted', { phase: 'stream' }), contentStarted: false },
  'at no cost': { fault: new Fault('model_server_error'), contentStarted: false },
  'with a time to wait': { fault: new Fault('model_overloaded', { retryAfterMs: 700 }), contentStarted: false },
  'without a server': { fault: new Fault('model_unreachable'), contentStarted: false },
} as const satisfies Record<string, Failure>

const all: readonly Failure[] = Object.values(FAILURES)

type Outcome = { readonly because: string; readonly attempts: number; readonly parks: number; readonly hours: number }

/** A turn from its first attempt to its end. A probe succeeds at once: what it waits for seems to be there each time. */
function play(failureOf: (attempt: number) => Failure, canContinue: boolean, policy: RetryPolicy, dice = 0.5): Outcome {
  const start = Date.parse('2026-11-15T12:00:00.000Z')
  let now = start
  let state = initialAnswer()
  const at = (): string => new Date(now).toISOString()
  const fold = (...events: readonly MachineEvent[]): void => void (state = events.reduce(reduceAnswer, state))
  const ladder: Ladder = {
    policy,
    canContinue,
    dice,
    canTakeBack: true,
    canReplay: false,
    fallbacks: 0,
    canCompact: false,
    canPark: true,
    canTell: false,
    deadlineAt: null,
  }
  fold({ type: 'step-start' })
  for (let [attempts, parks] = [1, 0]; ; attempts += 1) {
    if (attempts > ATTEMPTS_MAX) return { because: 'nothing', attempts, parks, hours: (now - start) / HOUR_MS }
    const attempt = state.attempt + 1
    const failure = failureOf(attempts)
    now += FAULT_EVERY_MS
    if (failure.contentStarted) fold({ type: 'text-delta', attempt, part: `p${attempt}`, text: 'a few more words ' })
    const rung = nextRung(state, { attempt, diverged: false, ...failure }, ladder, now)
    fold(...rung.discards.map(({ part, attempt: of }) => ({ type: 'part-discarded', attempt: of, part }) as const))
    if (rung.action === 'stop')
      return { because: rung.decision.because, attempts, parks, hours: (now - start) / HOUR_MS }
    const resumeAt =
      rung.action !== 'park' ? null : resumeTime(rung.fault, rung.decision.resumeAt, state.budget.parks, dice, now)
    fold(rungEvent(rung, now))
    if (rung.action === 'park') {
      parks += 1
      now = resumeAt ?? now + PROBE_MS
      fold({ type: 'resumed', at: at() })
    } else {
      now += rung.delayMs
    }
  }
}

const policy = fullPolicy({})

for (const [what, failure] of Object.entries(FAILURES))
  test(`a turn whose every attempt fails ${what} ends after twenty parks, within a day`, () => {
    for (const canContinue of [false, true]) {
      const outcome = play(() => failure, canContinue, policy)
      assert.deepEqual([outcome.because, outcome.parks], ['parks_spent', LIMITS.parksMax])
      assert.ok(outcome.hours < 24, JSON.stringify(outcome))
    }
  })

test('attempts that cost something are bounded by count: 60 in a turn, and one more after each park', () => {
  const { attempts } = play(() => FAILURES['in its text'], false, policy)
  assert.ok(attempts > policy.failuresMax && attempts <= policy.failuresMax + LIMITS.parksMax, String(attempts))
})

test('failures of all kinds in any order end the turn, too', () => {
  for (let seed = 1; seed <= 5; seed += 1) {
    const dice = diceOf(seed)
    const any = (): Failure => all[Math.floor(dice() * all.length)] ?? FAILURES['at no cost']
    const outcome = play(any, dice() < 0.5, policy, dice())
    assert.deepEqual([outcome.because, outcome.parks], ['parks_spent', LIMITS.parksMax], `seed ${seed}`)
    assert.ok(outcome.hours < 24, `seed ${seed}: ${JSON.stringify(outcome)}`)
  }
})

test('a call whose runner is lost again and again ends, too, although its command gets on in between', () => {
  const { report } = new Fault('runner_unreachable', { phase: 'stream', sideEffects: 'none' })
  let state = initialAnswer()
  const now = Date.parse('2026-11-15T12:00:00.000Z')
  const at = new Date(now).toISOString()
  for (let losses = 1; losses < ATTEMPTS_MAX; losses += 1) {
    const { failures, waitedMs, parks: used, parkedMs: usedMs } = state.budget
    const turn = { failures: failures + 1, waitedMs, parking: { used, usedMs }, deadlineAt: null, dice: 0.5 }
    const decision = decide(report, { at: 'runner', resolves: 0, resolvingMs: 0, ...turn }, policy, now)
    if (decision.action === 'stop') {
      assert.deepEqual([decision.because, used], ['parks_spent', LIMITS.parksMax])
      return assert.ok(losses <= policy.failuresMax + LIMITS.parksMax, String(losses))
    }
    const events: readonly MachineEvent[] =
      decision.action === 'park'
        ? [
            { type: 'parked', at, fault: report },
            { type: 'resumed', at },
          ]
        : [{ type: 'retry', at, attempt: 1, fault: report, action: 'resolve', delayMs: decision.delayMs }]
    state = events.reduce(reduceAnswer, state)
  }
  assert.fail('it never ended')
})

test('without parks, it ends after its attempts or its patience', () => {
  const never = fullPolicy({ park: 'never' })
  const counted = play(() => FAILURES['in its text'], false, never)
  assert.deepEqual([counted.because, counted.attempts], ['attempts_spent', never.attemptsMax])
  const free = play(() => FAILURES['at no cost'], false, never)
  assert.equal(free.because, 'patience_spent')
  assert.ok(free.hours * HOUR_MS <= never.patienceMs + 2 * FAULT_EVERY_MS, JSON.stringify(free))
})
