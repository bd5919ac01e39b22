/** The one retry loop: what it calls, when it waits, and how it ends. */
import assert from 'node:assert/strict'
import test from 'node:test'
import {
  Fault,
  POLICY_DEFAULTS,
  type RetryOptions,
  retryOutcome,
  type RetryPolicy,
  retrying,
  type Situation,
} from '@breakfall/faults'
import { answer, NOW, runner } from './situation.ts'

const AWAY = new Fault('daemon_unreachable')

/** A clock that the waits move. */
function virtual(policy: Partial<RetryPolicy> = {}) {
  const waits: number[] = []
  let now = NOW
  const options: RetryOptions = {
    policy: { ...POLICY_DEFAULTS, ...policy },
    dice: () => 1,
    now: () => now,
    sleep: (ms) => {
      waits.push(ms)
      now += ms
      return Promise.resolve()
    },
  }
  return { options, waits, pass: (ms: number) => (now += ms) }
}

/** Fails this often with the fault, then returns the number of its call. */
function failing(times: number, fault: Error = AWAY) {
  const calls: number[] = []
  const act = (attempt: number): Promise<number> => {
    calls.push(attempt)
    return calls.length <= times ? Promise.reject(fault) : Promise.resolve(attempt)
  }
  return { act, calls }
}

test('a call that succeeds is made once, without a wait', async () => {
  const { options, waits } = virtual()
  const { act, calls } = failing(0)
  assert.equal(await retrying(act, options), 1)
  assert.deepEqual([calls, waits], [[1], []])
})

test('a call that fails is repeated after the waits that decide asks for', async () => {
  const { options, waits } = virtual()
  const { act, calls } = failing(3)
  assert.equal(await retrying(act, options), 4)
  assert.deepEqual(calls, [1, 2, 3, 4])
  assert.deepEqual(waits, [500, 1_000, 2_000])
})

test('a Retry-After is kept', async () => {
  const { options, waits } = virtual()
  await retrying(failing(1, new Fault('daemon_unreachable', { retryAfterMs: 7_001 })).act, options)
  assert.deepEqual(waits, [7_001])
})

test('the last fault is thrown with the reason for stopping', async () => {
  const { options } = virtual({ attemptsMax: 3 })
  const { act, calls } = failing(Infinity)
  await assert.rejects(retrying(act, options), (thrown) => {
    assert.ok(thrown instanceof Fault)
    assert.deepEqual([thrown.category, thrown.report.stopped], ['daemon_unreachable', 'attempts_spent'])
    return true
  })
  assert.equal(calls.length, 3)
})

test('a fault that no retry can help is thrown at once', async () => {
  const { options, waits } = virtual()
  const { act, calls } = failing(Infinity, new Fault('invalid_request'))
  await assert.rejects(
    retrying(act, options),
    (thrown) => thrown instanceof Fault && thrown.category === 'invalid_request',
  )
  assert.deepEqual([calls, waits], [[1], []])
})

test('an error that is not a fault is rethrown unchanged, unless the caller turns it into one', async () => {
  const bug = new TypeError('undefined is not a function')
  await assert.rejects(retrying(failing(1, bug).act, virtual().options), bug)
  const faultOf = (cause: unknown): Fault => new Fault('daemon_unreachable', { cause })
  assert.equal(await retrying(failing(1, bug).act, { ...virtual().options, faultOf }), 2)
})

test('an abort ends the wait, and nothing is called after it', async () => {
  const stop = new AbortController()
  const { act, calls } = failing(Infinity)
  const policy = { ...POLICY_DEFAULTS, backoffMs: 30_000 }
  const running = retrying(act, { policy, signal: stop.signal, dice: () => 1, onRetry: () => stop.abort() })
  await assert.rejects(running, (thrown) => thrown instanceof Fault && thrown.category === 'cancelled')
  assert.equal(calls.length, 1)
})

test('the time away counts from the first failure, the calls included', async () => {
  const { options, pass, waits } = virtual({ waitMsMax: 30_000 })
  const act = (): Promise<never> => {
    pass(10_000) // a connection that times out
    return Promise.reject(AWAY)
  }
  const outcome = await retryOutcome(act, options)
  assert.ok(!outcome.ok)
  assert.deepEqual([outcome.decision, waits], [{ action: 'stop', because: 'wait_spent' }, [500, 1_000, 2_000]])
})

test('a failure from before the first call counts as the first', async () => {
  const { options, waits } = virtual({ attemptsMax: 2 })
  const { act, calls } = failing(Infinity)
  await assert.rejects(retrying(act, { ...options, failed: AWAY }))
  assert.deepEqual([calls, waits], [[1], [500]])
})

test('a failure after progress starts the count over', async () => {
  const { options, waits } = virtual({ attemptsMax: 3 })
  const { act, calls } = failing(3)
  const madeProgress = (): boolean => calls.length === 2
  assert.equal(await retrying(act, { ...options, madeProgress }), 4)
  assert.deepEqual(waits, [500, 500, 1_000])
})

test('a retry is reported before the wait, and the address is looked up after it', async () => {
  const { options, waits } = virtual()
  const log: string[] = []
  await retrying(failing(1).act, {
    ...options,
    onRetry: ({ attempt, delayMs }) => void log.push(`retry ${attempt} in ${delayMs}, waited ${waits.length}`),
    beforeRetry: () => void log.push(`look up, waited ${waits.length}`),
  })
  assert.deepEqual(log, ['retry 1 in 500, waited 0', 'look up, waited 1'])
})

test('a boundary with its own situation gets its own decision, parks included', async () => {
  const moved = new Fault('runner_unreachable')
  const situation = ({ attempt, awayMs, dice }: { attempt: number; awayMs: number; dice: number }): Situation =>
    runner({ resolves: attempt - 1, resolvingMs: awayMs, dice })
  const { options, waits } = virtual({ backoffMs: 100 })
  const outcome = await retryOutcome(failing(Infinity, moved).act, { ...options, situation })
  assert.ok(!outcome.ok)
  assert.deepEqual(outcome.decision, { action: 'park', resumeAt: null, because: 'resolves_spent' })
  assert.deepEqual(waits, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400])
  const parked = await retryOutcome(failing(1, new Fault('model_auth_failed')).act, {
    ...options,
    situation: () => answer(),
  })
  assert.ok(!parked.ok && parked.decision.action === 'park')
})
