/** For any thrown value, classify returns a bounded fault that keeps the cause. */
import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { BOUNDARIES, classify, describeCause, Fault, FAULTS, isFault, redact } from '@breakfall/faults'
import { causeChain, RAW_CHARS_MAX } from '../src/cause.ts'
import { TEXT_RULES } from '../src/transport.ts'

const boundaries = fc.constantFrom(...BOUNDARIES)
const phases = fc.constantFrom(undefined, 'connect', 'headers', 'stream', 'spawn')

function survives(thrown: unknown, boundary: (typeof BOUNDARIES)[number], phase?: string): Fault {
  const fault = classify(thrown, { boundary, phase })
  assert.ok(isFault(fault))
  assert.ok(Object.is(fault.cause, thrown), 'the cause is what was given')
  assert.ok(fault.errorRaw.length <= RAW_CHARS_MAX)
  assert.ok(fault.errorRaw.length > 0)
  assert.ok(fault.error.length > 0 && fault.error.length <= 1_000)
  assert.equal(fault.report.boundary, boundary)
  assert.ok(Object.hasOwn(FAULTS, fault.category))
  assert.deepEqual(JSON.parse(JSON.stringify(fault)), fault.report, 'the report is plain JSON')
  return fault
}

test('anything at all can be thrown', () => {
  fc.assert(
    fc.property(
      fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withObjectString: true }),
      boundaries,
      phases,
      (thrown, boundary, phase) => void survives(thrown, boundary, phase),
    ),
    { numRuns: 500 },
  )
})

/** A proxy that throws on every access. */
function hostileProxy(target: object): object {
  return new Proxy(target, {
    get: () => {
      throw new Error('no reading')
    },
    has: () => {
      throw new Error('no asking')
    },
    ownKeys: () => {
      throw new Error('no listing')
    },
    getPrototypeOf: () => {
      throw new Error('no ancestors')
    },
    getOwnPropertyDescriptor: () => {
      throw new Error('no describing')
    },
  })
}

function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

const throwing = (...keys: string[]): object =>
  Object.defineProperties(
    {},
    Object.fromEntries(
      keys.map((key) => [
        key,
        {
          enumerable: true,
          get() {
            throw new Error(`no ${key}`)
          },
        },
      ]),
    ),
  )

function ownCause(): Error {
  const error = new Error('mine')
  error.cause = error
  return error
}

function causeRing(): Error {
  const first = new Error('first')
  first.cause = new Error('second', { cause: new Error('third', { cause: first }) })
  return first
}

class ForeignError {
  readonly #text = 'in another hierarchy'
  get message(): string {
    return this.#text
  }
  get cause(): unknown {
    return new (class extends ForeignError {})()
  }
}

const HOSTILE: Readonly<Record<string, () => unknown>> = {
  'a string': () => 'it broke',
  'an empty string': () => '',
  null: () => null,
  undefined: () => undefined,
  'a symbol': () => Symbol('gone'),
  'a bigint': () => 10n ** 30n,
  NaN: () => NaN,
  'a function': () => () => 'not an error',
  'an object without a prototype': () => Object.create(null) as unknown,
  'its own cause': ownCause,
  'a ring of causes': causeRing,
  'an endless chain of new causes': () => new ForeignError(),
  'getters that throw': () =>
    throwing('message', 'name', 'code', 'cause', 'errors', 'syscall', 'errcode', 'report', 'stack'),
  'a message getter that throws': () => throwing('message'),
  'a proxy that throws': () => hostileProxy(new Error('inside')),
  'a revoked proxy': () => revoked({}),
  'a revoked array of errors': () => Object.assign(new Error('several'), { errors: revoked([]) }),
  'an array of errors that throws': () => Object.assign(new Error('several'), { errors: hostileProxy([]) }),
  'entries that throw': () =>
    Object.assign(new Error('several'), { errors: [hostileProxy({}), revoked({}), throwing('cause')] }),
  'an aggregate of a thousand': () =>
    new AggregateError(
      Array.from({ length: 1_000 }, (_, at) => new Error(`number ${at}`)),
      'many',
    ),
  'an aggregate of itself': () => {
    const errors: Error[] = []
    const aggregate = new AggregateError(errors, 'me again')
    aggregate.errors.push(aggregate)
    return aggregate
  },
  'ten megabytes of message': () => new Error('x'.repeat(10_000_000)),
  'ten megabytes of string': () => 'y'.repeat(10_000_000),
  'a toJSON that throws': () => ({
    toJSON() {
      throw new Error('no JSON')
    },
  }),
  'a frozen object': () => Object.freeze({ message: 'cold', code: 'ECONNRESET' }),
  'a frozen error': () => Object.freeze(new Error('cold')),
  'a message that is no string': () => ({ message: { deep: [1, 2n] }, name: 4, code: {}, cause: null }),
  'a cyclic object': () => {
    const cyclic: Record<string, unknown> = {}
    cyclic['self'] = cyclic
    return cyclic
  },
  'an errcode that is no number': () => Object.assign(new Error('odd'), { errcode: Symbol('x') }),
  'a lone surrogate': () => new Error('half a character: \ud83d'),
  'something called Fault': () => ({ name: 'Fault', report: { category: 'never_heard_of', error: 'x' } }),
}

for (const [name, make] of Object.entries(HOSTILE)) {
  test(`classify survives ${name}`, () => {
    for (const boundary of BOUNDARIES) {
      const thrown = make()
      const fault = survives(thrown, boundary)
      assert.ok(fault.errorRaw.isWellFormed())
      assert.ok(causeChain(thrown).length >= 1)
      assert.ok(describeCause(thrown).length <= RAW_CHARS_MAX)
    }
  })

  test(`classify survives ${name} as body, header, reason and second error`, () => {
    const context = { boundary: 'model' } as const
    const value = make()
    assert.equal(classify(undefined, { ...context, response: { status: 503, body: value } }).report.status, 503)
    const wrapped = new Error('outer', { cause: value })
    assert.equal(classify(wrapped, { ...context, response: { status: 500, body: value } }).cause, wrapped)
    assert.match(classify(wrapped, context).errorRaw, /outer/)
    const ours = classify(value, { ...context, signal: AbortSignal.abort(value) })
    assert.ok(ours.category === 'cancelled' || ours.category === 'other')
    const headers = value as Record<string, string>
    if (typeof value === 'object' && value !== null)
      assert.equal(
        classify(undefined, { ...context, response: { status: 429, headers } }).category,
        'model_rate_limited',
      )
  })
}

test('the innermost message is in the raw error, through any chain of wrappers', () => {
  const words = fc.stringMatching(/^[a-z]{3,12}( [a-z]{3,12}){0,5}$/)
  // After a wrapper that ends like the name of a secret ("pwd"), the rest is rightly redacted.
  const wrapper = fc.string({ maxLength: 400 }).filter((text) => redact(`${text}: why`).endsWith(': why'))
  fc.assert(
    fc.property(fc.array(wrapper, { maxLength: 25 }), words, boundaries, (outer, inner, boundary) => {
      let error: unknown = new Error(inner)
      for (const message of outer) error = new Error(message, { cause: error })
      const fault = survives(error, boundary)
      assert.ok(fault.errorRaw.includes(inner), fault.errorRaw)
    }),
  )
})

test('a wrapper without a cause keeps its own message', () => {
  assert.equal(classify(new TypeError('terminated'), { boundary: 'model' }).errorRaw, 'terminated')
  assert.equal(describeCause(new TypeError('fetch failed')), 'fetch failed')
})

test('a fault keeps its category and its cause, and gains ids', () => {
  const cause = new Error('why')
  const fault = new Fault('box_stopped', { cause, facts: { name: 'b1' }, boxId: 'b1' })
  const again = classify(fault, { boundary: 'model', turnId: 't1' })
  assert.equal(again.category, 'box_stopped')
  assert.equal(again.report.boxId, 'b1')
  assert.equal(again.report.turnId, 't1')
  assert.equal(again.report.boundary, 'box', 'classified once')
  assert.equal(again.cause, cause)
})

test('a fault from another copy of this package is a fault', () => {
  const { report } = new Fault('crash_loop')
  const foreign = Object.assign(new Error(report.error), { name: 'Fault', report })
  assert.ok(isFault(foreign))
  assert.equal(classify(foreign, { boundary: 'model' }).category, 'crash_loop')
})

test('a full or broken disk under the journal is recognised by its code, even when wrapped', () => {
  const full = Object.assign(new Error('database or disk is full'), { code: 'ERR_SQLITE_ERROR', errcode: 13 })
  const corrupt = Object.assign(new Error('malformed'), { code: 'ERR_SQLITE_ERROR', errcode: 11 | (1 << 8) })
  const nospace = Object.assign(new Error('ENOSPC: no space left on device, write'), {
    code: 'ENOSPC',
    syscall: 'write',
  })
  const classified = (error: Error) =>
    classify(new Error('append failed', { cause: error }), { boundary: 'journal' }).category
  assert.equal(classified(full), 'journal_full')
  assert.equal(classified(nospace), 'journal_full')
  assert.equal(classified(corrupt), 'journal_corrupt')
})

test('a blocked connect and an odd resolver error are unreachable, not unknown', () => {
  const blocked = Object.assign(new Error('connect EACCES 10.0.0.1:443'), { code: 'EACCES', syscall: 'connect' })
  const odd = Object.assign(new Error('getaddrinfo EAI_NODATA m.test'), { code: 'EAI_NODATA', syscall: 'getaddrinfo' })
  for (const error of [blocked, odd]) {
    assert.equal(classify(error, { boundary: 'model' }).category, 'model_unreachable')
    assert.equal(classify(error, { boundary: 'runner' }).category, 'runner_unreachable')
  }
})

for (const { kind, pattern, seen } of TEXT_RULES) {
  test(`the text rule for ${kind} matches what was seen: ${seen}`, () => {
    assert.match(seen, pattern)
    assert.doesNotMatch(`the test expects "${seen}" in the log`, pattern, 'a quote inside a sentence is not evidence')
    assert.notEqual(classify(seen, { boundary: 'model' }).category, 'other')
  })
}

test('an error that crossed a wire as text is still recognised by its system code', () => {
  assert.equal(classify('connect ECONNREFUSED 127.0.0.1:54321', { boundary: 'model' }).category, 'model_unreachable')
  assert.equal(classify('read ECONNRESET', { boundary: 'model', phase: 'stream' }).category, 'model_stream_interrupted')
  assert.equal(classify('connect EVERYTHING later', { boundary: 'model' }).category, 'other')
})

test('"connection refused" in the output of a tool changes nothing', () => {
  for (const text of ['curl: (7) Failed to connect: Connection refused', 'connect: connection refused']) {
    assert.equal(classify(new Error(text), { boundary: 'box' }).category, 'other')
  }
})
