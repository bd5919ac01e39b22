/** What a failed call means, compared with the full classifier that the services use. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { classify, Fault, FAULT_CATEGORIES, toProblem } from '@breakfall/faults'
import { brokenStream, failedCall, refusedCall } from '../src/call-fault.ts'

const ADDRESS = { url: 'http://daemon.test:4711', token: 'a-secret-token' }

const failed = (cause: Error): TypeError => new TypeError('fetch failed', { cause })
const withCode = (code: string): Error => Object.assign(new Error(`it failed: ${code}`), { code })

const CODES = [
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_HEADERS_OVERFLOW',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_HAS_EXPIRED',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'EPROTO',
  'HPE_INVALID_CONSTANT',
  'ERR_INVALID_URL',
  'UND_ERR_INVALID_ARG',
]

for (const code of CODES)
  test(`${code} has the category and the next step that the classifier gives it`, () => {
    const thrown = failed(withCode(code))
    const { category, report } = classify(thrown, { boundary: 'daemon' })
    const own = failedCall(thrown, ADDRESS)
    assert.deepEqual([own.category, own.report.next], [category, report.next])
    assert.match(own.errorRaw, new RegExp(code))
  })

test('a failed fetch in a browser is a daemon that does not answer, and so is a broken stream', () => {
  for (const message of ['Failed to fetch', 'NetworkError when attempting to fetch resource.', 'Load failed'])
    assert.equal(failedCall(new TypeError(message), ADDRESS).category, 'daemon_unreachable')
  const broken = brokenStream(withCode('EPROTO'), ADDRESS)
  assert.deepEqual([broken.category, broken.report.phase], ['daemon_unreachable', 'stream'])
})

test('neither the token nor credentials in the URL appear in a fault', async () => {
  const address = { url: 'http://me:hunter2@daemon.test', token: 'a-secret\ntoken' }
  const thrown: unknown = await fetch('http://127.0.0.1:1', {
    headers: { authorization: `Bearer ${address.token}` },
  }).catch((error: unknown) => error)
  const faults = [failedCall(thrown, address), refusedCall({ status: 500 }, `you sent ${address.token}`, address)]
  for (const fault of faults) assert.doesNotMatch(JSON.stringify(fault), /hunter2|secret/)
  assert.equal(faults[0]?.report.next, 'never', 'a token that no header can hold is not sent again')
})

test('every fault that a daemon reports arrives with its category, message and next step', () => {
  for (const category of FAULT_CATEGORIES) {
    const sent = new Fault(category, { turnId: 't1' })
    const problem = toProblem(sent)
    if (category === 'unauthorized') continue // has its own message
    const { at: _at, ...got } = refusedCall(
      { status: problem.status },
      JSON.parse(JSON.stringify(problem)),
      ADDRESS,
    ).report
    const { at: _sentAt, ...wanted } = sent.report
    assert.deepEqual(got, { ...wanted, status: problem.status })
  }
})

test('a category that only a newer daemon knows becomes other, and keeps its class and its name', () => {
  const problem = { ...toProblem(new Fault('model_overloaded')), category: 'moon_eclipsed', next: 'wax' }
  const { report } = refusedCall({ status: 503 }, { ...problem, type: 'urn:breakfall:fault:moon_eclipsed' }, ADDRESS)
  assert.deepEqual([report.category, report.class, report.next], ['other', 'throttled', 'retry'])
  assert.match(report.errorRaw, /^moon_eclipsed: /)
})

test('a proxy whose daemon is away is a daemon that does not answer; another server is not called again', () => {
  for (const status of [408, 429, 502, 503, 504, 522])
    assert.equal(refusedCall({ status }, '<h1>Bad Gateway</h1>', ADDRESS).category, 'daemon_unreachable')
  for (const [status, category] of [
    [404, 'not_found'],
    [500, 'other'],
    [403, 'other'],
  ] as const) {
    const fault = refusedCall({ status }, '<h1>no</h1>', ADDRESS)
    assert.deepEqual([fault.category, fault.report.next, fault.report.status], [category, 'never', status])
  }
})
