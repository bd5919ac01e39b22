/** Faults over HTTP and back, from newer and from hostile peers; and how long a peer asked us to wait. */
import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import {
  classify,
  decide,
  Fault,
  FAULT_CATEGORIES,
  faultFrom,
  FAULTS,
  POLICY_DEFAULTS,
  toProblem,
} from '@breakfall/faults'
import { fromProblem } from '../src/problem.ts'
import { retryAfterMs } from '../src/retry-after.ts'
import { answer } from './situation.ts'

const FULL = {
  phase: 'stream',
  errorRaw: 'as the machine said it',
  retry: { attempt: 2, max: 6, nextAt: '2026-11-15T12:00:00.000Z' },
  sideEffects: 'completed',
  diagnostics: [{ id: 'oom', rank: 'cause', message: 'm', advice: 'a', retry: 'never', evidence: ['e'], count: 2 }],
  stopped: 'attempts_spent',
  retryAfterMs: 1500,
  reason: 'not_found',
  errors: [{ field: 'limits.memoryMb', expected: 'an integer from 16 to 65536', got: '-1' }],
  turnId: 't',
  stepId: 's',
  callId: 'c',
  execId: 'e',
  boxId: 'b',
  boxState: 'stopped',
  requestId: 'r',
  at: '2026-11-15T12:00:00.000Z',
} as const

for (const category of FAULT_CATEGORIES) {
  test(`${category} survives a round trip over HTTP`, () => {
    const fault = new Fault(category, FULL)
    const problem = toProblem(fault)
    assert.equal(problem.type, `urn:breakfall:fault:${category}`)
    assert.equal(problem.status, FAULTS[category].http)
    assert.equal(problem.title, FAULTS[category].title)
    assert.equal(problem.detail, problem.error)
    assert.deepEqual(toProblem(fault.report), problem, 'from the report as from the fault')
    const back = fromProblem(JSON.parse(JSON.stringify(problem)))
    // One thing is added on the way: the response's status.
    assert.deepEqual(back?.report, { ...fault.report, status: FAULTS[category].http })
  })
}

test('a category that only a newer peer knows keeps its class, its next step and its name', () => {
  const newer = {
    type: 'urn:breakfall:fault:model_on_holiday',
    category: 'model_on_holiday',
    class: 'transient',
    next: 'park',
    boundary: 'model',
    error: 'the model is on holiday',
    errorRaw: 'back on Monday',
    sideEffects: 'none',
    diagnostics: [],
    at: '2026-11-15T12:00:00.000Z',
  }
  for (const fault of [
    fromProblem(newer),
    faultFrom(newer),
    fromProblem(newer)?.with({ turnId: 't1' }),
    classify(undefined, { boundary: 'runner', response: { status: 503, body: newer } }),
    faultFrom(JSON.parse(JSON.stringify(faultFrom(newer)))), // written down and read back
  ]) {
    assert.ok(fault)
    assert.equal(fault.category, 'other')
    assert.equal(fault.class, 'transient')
    assert.equal(fault.report.next, 'park')
    assert.equal(fault.error, 'the model is on holiday')
    assert.equal(fault.errorRaw, 'model_on_holiday: back on Monday')
  }
  const decided = (more: object) => {
    const { report } = faultFrom({ ...newer, next: undefined, ...more })
    return decide(report, answer(), POLICY_DEFAULTS, 0).action
  }
  assert.equal(decided({}), 'retry', 'an unknown next step is decided by class')
  assert.equal(decided({ next: 'meditate' }), 'retry')
  assert.equal(decided({ class: 'invalid' }), 'stop')
  assert.equal(decided({ class: 'surprised' }), 'stop')
})

test('the table, not the sender, sets the class of a known category', () => {
  assert.equal(faultFrom({ category: 'cancelled', error: 'x', class: 'transient' }).class, 'cancelled')
})

test('a problem document from another service is not a fault', () => {
  for (const body of [
    undefined,
    null,
    'text',
    4,
    [],
    {},
    { type: 'about:blank', category: 'other' },
    { type: 'urn:breakfall:fault:other' },
  ]) {
    assert.equal(fromProblem(body), undefined)
  }
})

test('a hostile report never throws, and values of the wrong type are dropped', () => {
  const field = fc.anything({ withBigInt: true, withNullPrototype: true })
  const keys = [...Object.keys(FULL), 'category', 'class', 'boundary', 'next', 'error', 'facts', 'cause', 'status']
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom(...keys), field),
      fc.constantFrom(...FAULT_CATEGORIES),
      (fields, category) => {
        const body = { category, ...fields, type: 'urn:breakfall:fault:x' }
        for (const fault of [faultFrom(body), fromProblem({ ...body, category })]) {
          assert.ok(fault)
          const { report } = fault
          assert.equal(typeof report.error, 'string')
          assert.equal(typeof report.errorRaw, 'string')
          assert.ok(Array.isArray(report.diagnostics))
          for (const key of ['turnId', 'phase', 'reason', 'stopped', 'requestId', 'at'] as const)
            assert.ok(report[key] === undefined || typeof report[key] === 'string')
          assert.ok(report.retryAfterMs === undefined || report.retryAfterMs >= 0)
          assert.deepEqual(JSON.parse(JSON.stringify(report)), report)
        }
      },
    ),
    { numRuns: 500 },
  )
})

test('a response with a problem document is that fault, with our ids, and what was thrown as its cause', () => {
  const thrown = new Error('the client library complained')
  const body = toProblem(new Fault('box_stopped', { facts: { name: 'b1' }, boxId: 'b1' }))
  const fault = classify(thrown, { boundary: 'runner', callId: 'c1', response: { status: 409, body } })
  assert.equal(fault.category, 'box_stopped')
  assert.equal(fault.report.callId, 'c1')
  assert.equal(fault.report.status, 409)
  assert.equal(fault.cause, thrown)
})

const NOW = Date.parse('2026-11-15T12:00:00.000Z')

const WAITS: readonly [string, Record<string, string | readonly string[] | undefined>, number | undefined][] = [
  ['seconds', { 'retry-after': '7' }, 7_000],
  ['zero', { 'retry-after': '0' }, 0],
  ['a fraction of seconds, rounded up', { 'retry-after': '0.0015' }, 2],
  ['blanks around', { 'retry-after': ' 3 ' }, 3_000],
  ['milliseconds, which take precedence', { 'retry-after-ms': '1500', 'retry-after': '9' }, 1_500],
  ['invalid milliseconds, which are ignored', { 'retry-after-ms': 'soon', 'retry-after': '9' }, 9_000],
  ['an HTTP date', { 'retry-after': 'Sun, 15 Nov 2026 12:00:42 GMT' }, 42_000],
  ['an obsolete HTTP date', { 'retry-after': 'Sunday, 15-Nov-26 12:00:42 GMT' }, 42_000],
  ['an ISO date', { 'retry-after': '2026-11-15T12:00:42Z' }, 42_000],
  ['a date in the past', { 'retry-after': 'Sun, 15 Nov 2026 11:00:00 GMT' }, 0],
  ['a negative number', { 'retry-after': '-5' }, undefined],
  ['an absurd number, bounded to a valid date', { 'retry-after': '9'.repeat(300) }, 1_000_000_000_000],
  ['a number too large for a number', { 'retry-after': '9'.repeat(400) }, 1_000_000_000_000],
  ['words', { 'retry-after': 'try 5' }, undefined],
  ['a single word', { 'retry-after': 'tomorrow' }, undefined],
  ['an invalid date', { 'retry-after': 'Sun, 99 Nov 2026 99:99:99 GMT' }, undefined],
  ['hexadecimal', { 'retry-after': '0x10' }, undefined],
  ['nothing', {}, undefined],
  ['empty', { 'retry-after': '' }, undefined],
  ['capital letters', { 'Retry-After': '2' }, 2_000],
  ['a list of values', { 'retry-after': ['4', '5'] }, 4_000],
]
for (const [name, headers, expected] of WAITS) {
  test(`Retry-After in the form of ${name}`, () => {
    assert.equal(retryAfterMs(headers, NOW), expected)
    const single = Object.entries(headers).flatMap(([key, value]) =>
      typeof value === 'string' ? [[key, value] as [string, string]] : [],
    )
    if (single.length === Object.keys(headers).length) assert.equal(retryAfterMs(new Headers(single), NOW), expected)
  })
}

test('every wait from a header is a whole, finite number that can be added to a date', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.double().map(String),
        fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
      ),
      (value) => {
        const wait = retryAfterMs({ 'retry-after': value }, NOW)
        if (wait === undefined) return
        assert.ok(Number.isSafeInteger(wait) && wait >= 0)
        assert.doesNotThrow(() => new Date(NOW + wait).toISOString())
      },
    ),
  )
})

test('headers that throw count as headers without a wait', () => {
  const headers = {
    get() {
      throw new Error('closed')
    },
  }
  assert.equal(retryAfterMs(headers, NOW), undefined)
  assert.equal(
    classify(undefined, { boundary: 'model', response: { status: 429, headers } }).category,
    'model_rate_limited',
  )
})
