import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isFault } from '@breakfall/faults'
import { COMMON_FAULTS, FAULT_KIND_NAMES } from '../src/fault-kinds.ts'
import { type CountedRequest, faultFor, readPlan } from '../src/plan.ts'
import { parsePlan } from '../src/plan-text.ts'

const asked = (ordinal: number, attempt: number): CountedRequest => ({ ordinal, attempt, fingerprint: `f${ordinal}` })

test('a plan is a pure function of seed, request and attempt', () => {
  fc.assert(
    fc.property(fc.integer(), fc.nat(), fc.integer({ min: 1, max: 9 }), (seed, ordinal, attempt) => {
      const plan = readPlan({ seed, rate: 0.5, faults: [...FAULT_KIND_NAMES] })
      const copy = readPlan(JSON.parse(JSON.stringify(plan)))
      assert.deepEqual(copy, plan)
      assert.deepEqual(faultFor(copy, asked(ordinal, attempt)), faultFor(plan, asked(ordinal, attempt)))
    }),
  )
})

test('the rate holds, every listed fault occurs, and another seed gives another run', () => {
  const plan = readPlan({ seed: 7, rate: 0.2, faults: ['reset', 'stall', 'status'] })
  const faults = Array.from({ length: 4_000 }, (_, i) => faultFor(plan, asked(i + 1, 1)))
  const hits = faults.filter((fault) => fault !== undefined)
  assert.ok(Math.abs(hits.length / faults.length - 0.2) < 0.03, `${hits.length} of ${faults.length}`)
  for (const kind of ['reset', 'stall', 'status']) {
    assert.ok(hits.filter((fault) => fault.kind === kind).length > hits.length / 5, kind)
  }
  const other = readPlan({ seed: 8, rate: 0.2, faults: ['reset', 'stall', 'status'] })
  assert.notDeepEqual(
    faults.map((fault) => fault === undefined),
    faults.map((_, i) => faultFor(other, asked(i + 1, 1)) === undefined),
  )
  const more = readPlan({ seed: 7, rate: 0.4 })
  for (const [i, fault] of faults.entries())
    if (fault) assert.ok(faultFor(more, asked(i + 1, 1)), 'a higher rate only adds')
})

test('a planned fault has every setting', () => {
  for (const kind of FAULT_KIND_NAMES) {
    const fault = faultFor(readPlan({ at: [{ request: 1, fault: kind }] }), asked(1, 1))
    for (const value of Object.values(fault ?? {})) assert.notEqual(value, undefined)
    if (kind === 'stall') assert.ok(Number.isInteger(fault?.['afterEvents']) && fault?.['ms'] === 30_000)
  }
})

test('a fault at a fixed request takes precedence over the rate, by number and by fingerprint', () => {
  const plan = readPlan({
    at: [
      { request: 3, attempt: 2, fault: 'fin' },
      { request: 'f9', fault: { kind: 'status', status: 429 } },
    ],
  })
  assert.equal(faultFor(plan, asked(3, 1)), undefined)
  assert.equal(faultFor(plan, asked(3, 2))?.kind, 'fin')
  assert.equal(faultFor(plan, asked(9, 1))?.['status'], 429)
})

test('with a limit on attempts, later ones get through', () => {
  const plan = readPlan({ rate: 1, attempts: 2 })
  assert.ok(faultFor(plan, asked(1, 2)))
  assert.equal(faultFor(plan, asked(1, 3)), undefined)
})

test('a one-line plan equals its JSON', () => {
  assert.deepEqual(
    parsePlan('seed=7,rate=0.2,faults=reset+stall'),
    readPlan({ seed: 7, rate: 0.2, faults: ['reset', 'stall'] }),
  )
  assert.deepEqual(
    parsePlan(
      'faults=stall:2000:afterEvents=3+status:429:retryAfter=date:2s+cut_tool_arguments:false,attempts=2,path=/v1/chat',
    ),
    readPlan({
      faults: [
        { kind: 'stall', ms: 2000, afterEvents: 3 },
        { kind: 'status', status: 429, retryAfter: 'date:2s' },
        { kind: 'cut_tool_arguments', finish: false },
      ],
      attempts: 2,
      path: '/v1/chat',
    }),
  )
  assert.deepEqual(
    parsePlan('at=3.1:reset+5:stall:100,toxics=latency:100:jitter=20:toxicity=0.5:stream=upstream'),
    readPlan({
      at: [
        { request: 3, attempt: 1, fault: 'reset' },
        { request: 5, attempt: 1, fault: { kind: 'stall', ms: 100 } },
      ],
      toxics: [{ type: 'latency', stream: 'upstream', toxicity: 0.5, attributes: { latency: 100, jitter: 20 } }],
    }),
  )
  assert.deepEqual(parsePlan(' {"rate": 1}'), readPlan({ rate: 1 }))
  assert.deepEqual(parsePlan(''), readPlan({}))
  assert.deepEqual(parsePlan('none'), readPlan({}))
  assert.deepEqual(
    parsePlan('rate=1').faults.map((fault) => fault.kind),
    COMMON_FAULTS,
  )
})

for (const [text, field, expected] of [
  ['rate=2', 'rate', 'a number from 0 to 1'],
  ['rate=lots', 'rate', 'a number from 0 to 1'],
  ['seed=1.5', 'seed', 'a whole number'],
  ['rat=0.2', 'rat', 'no such field (did you mean rate?)'],
  ['frequency=0.2', 'frequency', 'choose from seed, rate'],
  ['rate', 'rate', 'name=value'],
  ['rate=0.1,rate=0.2', 'rate', 'given once'],
  ['faults=resett', 'faults.0', 'one of reset_before_headers'],
  ['faults=reset+stall:fast', 'faults.1.ms', 'a whole number from 0 to 600000'],
  ['faults=stall:99999999', 'faults.0.ms', 'a whole number from 0 to 600000'],
  ['faults=reset_before_headers:3', 'faults.0.reset_before_headers', 'it has none'],
  ['faults=status:200', 'faults.0.status', 'a whole number from 400 to 599'],
  ['faults=status:retryAfter=soon', 'faults.0.retryAfter', 'a wait such as 2s'],
  ['faults=in_band_error:sad', 'faults.0.error', 'one of overloaded'],
  ['at=0.1:reset', 'at.0.request', 'a number from 1 or a fingerprint'],
  ['at=1.0:reset', 'at.0.attempt', 'a whole number from 1'],
  ['at=1', 'at.0.fault', 'one of reset_before_headers'],
  ['by=luck', 'by', 'ordinal or fingerprint'],
  ['path=v1', 'path', 'a path that starts with /'],
  ['attempts=-1', 'attempts', 'a whole number from 1'],
  ['toxics=poison', 'toxics.0.type', 'one of latency'],
  ['toxics=latency:speed=3', 'toxics.0.attributes.speed', 'one of latency, jitter'],
  ['toxics=latency:toxicity=7', 'toxics.0.toxicity', 'a number from 0 to 1'],
  ['{"rate":', 'the plan', 'JSON'],
  ['{"faults":"reset"}', 'faults', 'a list'],
] as const) {
  test(`an invalid plan names its wrong field: ${text}`, () => {
    assert.throws(
      () => parsePlan(text),
      (error: unknown) => {
        assert.ok(isFault(error) && error.category === 'invalid_request')
        const found = error.report.errors?.find((entry) => entry.field === field)
        assert.ok(found?.expected.includes(expected), error.message)
        assert.match(error.message, /^The fault plan is not valid: /)
        return true
      },
    )
  })
}

test('a misspelled name gets a suggestion', () => {
  for (const [text, hint] of [
    ['faults=resett', 'got "resett" (did you mean reset?)'],
    ['at=2.1:staal', 'got "staal" (did you mean stall?)'],
    ['toxics=latencyy', 'got "latencyy" (did you mean latency?)'],
    ['sed=7', '(did you mean seed?)'],
  ] as const)
    assert.throws(
      () => parsePlan(text),
      (error: Error) => error.message.includes(hint),
    )
  assert.throws(
    () => parsePlan('faults=nonsense'),
    (error: Error) => !error.message.includes('did you mean'),
  )
})

test('no text makes the parser fail in any other way', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      try {
        parsePlan(text)
      } catch (error) {
        assert.ok(isFault(error) && error.category === 'invalid_request', String(error))
      }
    }),
  )
})
