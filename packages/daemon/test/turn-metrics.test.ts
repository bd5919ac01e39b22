/** Metrics of turns: what counts as a first word, what a store that is away does, and how budgets are read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, POLICY_DEFAULTS } from '@breakfall/faults'
import { initialAnswer } from '@breakfall/model/internal'
import { type SessionEvent, sessionEventSchema } from '@breakfall/wire'
import { Registry } from 'prom-client'
import { budgetsLeft, parkedCategories, turnMetrics } from '../src/api/turn-metrics.ts'

const { report: fault } = new Fault('model_overloaded')
const step = { step: 1, attempt: 1 }
const PARTS = {
  'step-start': { step: 1 },
  retry: { ...step, fault, action: 'retry', delayMs: 1, max: 6, nextAt: new Date(0).toISOString() },
  'text-delta': { ...step, part: 'p1', text: 'Hi' },
  parked: { fault, resumeAt: null },
}

const event = (type: keyof typeof PARTS, second: number): SessionEvent =>
  sessionEventSchema.parse({
    seq: 1,
    type,
    sessionId: 's1',
    turnId: 't1',
    at: new Date(second * 1000).toISOString(),
    ...PARTS[type],
  })

test('the first word counts from the start of its step, once, retries included; a park in between does not count', async () => {
  const registry = new Registry()
  const seen = turnMetrics({ drivenTurns: () => [], parkedOn: () => Promise.resolve([]) }, [registry])
  for (const one of [
    event('step-start', 0),
    event('retry', 1),
    event('text-delta', 4),
    event('text-delta', 90),
    event('step-start', 100),
    event('parked', 101),
    event('text-delta', 5000),
  ])
    seen(one)
  const text = await registry.metrics()
  assert.match(text, /breakfall_first_token_seconds_sum 4\n/)
  assert.match(text, /breakfall_first_token_seconds_count 1\n/)
})

test('parked turns are counted by category, and keep their last numbers while the store is away', async () => {
  const registry = new Registry()
  let parked: readonly string[] | undefined = ['network_down', 'network_down', 'approval_needed']
  turnMetrics({ drivenTurns: () => [], parkedOn: () => Promise.resolve(parked) }, [registry])
  const lines = async (): Promise<readonly string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('breakfall_turns_parked'))
  const both = [
    'breakfall_turns_parked{category="network_down"} 2',
    'breakfall_turns_parked{category="approval_needed"} 1',
  ]
  assert.deepEqual(await lines(), both)
  parked = undefined
  assert.deepEqual(await lines(), both)
  parked = []
  assert.deepEqual(await lines(), [])
  assert.equal(await parkedCategories({ listSessions: () => Promise.reject(new Error('away')) }), undefined)
})

test('a budget is a share from 1, unused, to 0, spent', () => {
  const used = { failures: 35, freeFailures: 5, waitedMs: 9e9, parks: 5, parkedMs: 0 }
  const turn = { step: 60, stepsFrom: 20, answer: initialAnswer(used) }
  assert.deepEqual(budgetsLeft({ turn, policy: POLICY_DEFAULTS }), {
    failures: 0.5,
    waiting: 0,
    parks: 0.75,
    parked_time: 1,
    steps: 0.8,
  })
})
