/** A turn does not stop or park over one server's failure while the list has another model. */
import assert from 'node:assert/strict'
import test from 'node:test'
import {
  type AnswerSituation,
  decide,
  Fault,
  FAULT_CATEGORIES,
  type FaultCategory,
  type FaultInit,
  FAULTS,
  POLICY_DEFAULTS,
  type RetryPolicy,
} from '@breakfall/faults'
import { MAY_ASK_NEXT_MODEL } from '../src/elsewhere.ts'
import { answer, NOW } from './situation.ts'

const NEXT_MODEL = { action: 'fallback', delayMs: 0, because: 'next_model' } as const

type Case = {
  readonly says: string
  readonly category: FaultCategory
  readonly fault?: FaultInit
  readonly situation?: Partial<AnswerSituation>
  readonly policy?: Partial<RetryPolicy>
}

const decided = ({ category, ...rest }: Case, fallbacks: number) =>
  decide(
    new Fault(category, rest.fault).report,
    answer({ ...rest.situation, fallbacks }),
    { ...POLICY_DEFAULTS, ...rest.policy },
    NOW,
  )

const FAILS_OVER: readonly Case[] = [
  { says: 'when its attempts are spent', category: 'model_overloaded', situation: { attempt: 6 } },
  {
    says: 'even if the turn cannot park',
    category: 'model_overloaded',
    situation: { attempt: 6, parking: 'impossible' },
  },
  { says: 'when the wait budget is spent', category: 'model_overloaded', situation: { waitedMs: 30 * 60_000 } },
  { says: 'when it asks for a long wait', category: 'model_rate_limited', fault: { retryAfterMs: 61_000 } },
  {
    says: 'when it asks for a wait past the deadline',
    category: 'model_rate_limited',
    fault: { retryAfterMs: 30_000 },
    situation: { deadlineAt: NOW + 20_000 },
  },
  { says: 'at once, when its quota is used up', category: 'model_quota_exhausted', fault: { retryAfterMs: 3_600_000 } },
  { says: 'at once, when it refuses the key', category: 'model_auth_failed' },
  { says: 'at once, when it does not know the model', category: 'model_not_found' },
  { says: 'at once, when its address is invalid', category: 'model_endpoint_invalid' },
  { says: 'at once, when the network to it is down', category: 'network_down' },
  { says: 'at once, when its server keeps crashing', category: 'crash_loop' },
]

for (const one of FAILS_OVER) {
  test(`${one.category}: the next model is asked ${one.says}`, () => {
    assert.deepEqual(decided(one, 1), NEXT_MODEL)
    assert.ok(['park', 'stop'].includes(decided(one, 0).action), 'without another model it parks or stops')
  })
}

const ENDS: readonly Case[] = [
  { says: 'an invalid request is invalid there too', category: 'model_bad_request' },
  {
    says: 'a conversation that cannot be shortened is too long there too',
    category: 'model_context_overflow',
    situation: { canCompact: false },
  },
  { says: 'a content filter has the final say', category: 'model_content_filtered' },
  { says: 'the failures of the whole turn are spent', category: 'model_overloaded', situation: { failures: 60 } },
  {
    says: 'an unknown effect is not repeated',
    category: 'model_stream_interrupted',
    fault: { sideEffects: 'unknown' },
  },
  { says: 'the deadline has passed', category: 'model_auth_failed', situation: { deadlineAt: NOW } },
  { says: 'the turn was cancelled', category: 'cancelled' },
  { says: 'a runner is not a model', category: 'runner_unreachable', situation: { attempt: 6 } },
]

for (const one of ENDS) {
  test(`${one.category}: no other model is asked, because ${one.says}`, () => {
    const decision = decided(one, 2)
    assert.ok(['park', 'stop'].includes(decision.action), decision.action)
    assert.deepEqual(decision, decided(one, 0))
  })
}

test('the same model is retried first if that may succeed', () => {
  assert.equal(decided({ says: '', category: 'model_stream_interrupted' }, 2).action, 'retry')
  assert.equal(decided({ says: '', category: 'process_failed' }, 2).action, 'restart')
  assert.equal(decided({ says: '', category: 'model_context_overflow' }, 2).action, 'compact')
})

test('every fault of a model, or of a process that serves one, says whether another model may do better', () => {
  const concerned = FAULT_CATEGORIES.filter((category) => ['model', 'process'].includes(FAULTS[category].boundary))
  assert.deepEqual(Object.keys(MAY_ASK_NEXT_MODEL).toSorted(), concerned.toSorted())
})
