/** Which failures are the same one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { blanked, fingerprint } from '../src/fingerprint.ts'
import { Fault } from '../src/index.ts'

const of = (errorRaw: string): string => fingerprint(new Fault('model_stream_interrupted', { errorRaw }).report)

test('failures that differ in ports, ids, hosts, paths and times are one', () => {
  const same = [
    ['read ECONNRESET 127.0.0.1:43211', 'read ECONNRESET 10.0.0.7:80'],
    ['connect ECONNREFUSED ::1:8080', 'connect ECONNREFUSED fe80::12ab:1:9'],
    ['getaddrinfo ENOTFOUND api.one.example', 'getaddrinfo ENOTFOUND llm.two.example:443'],
    ['HTTP 503 from https://a.example/v1/chat?x=1', 'HTTP 503 from http://b.example:99/v2'],
    ['request req_0A1b2C3d4E5 failed', 'request req_9Z8y7X6w5V4 failed'],
    ['no such file: /home/a/one.txt', 'no such file: /srv/b-2'],
    ['exec 0190aaaa-0000-7000-8000-00000000000a is gone', 'exec 0190bbbb-1111-7000-8000-0000000000ff is gone'],
    ['fell silent for 118.2 s\nsecond line', 'fell silent for 7 s\nanother'],
    ['bad pointer 0x7ffdeadbeef', 'bad pointer 0x55aa00112'],
    ['ended after 1 part with no end marker', 'ended after 12 parts with no end marker'],
    ['not JSON: {"id":"chatcmpl-1a","choices":[{"delta":{"content":"One', 'not JSON: {"id":"chatcmpl-2b","choices":[{'],
    ['not JSON: {"type":"content_block_delta","delta":{"text":"One', 'not JSON: {"type":"content_block_delta","index'],
  ] as const
  for (const [a, b] of same) assert.equal(of(a), of(b), `${blanked(a)} | ${blanked(b)}`)
})

test('other words, another category, phase or cause are another failure', () => {
  const report = new Fault('model_stream_interrupted', { errorRaw: 'read ECONNRESET', phase: 'body' }).report
  const cause = { id: 'oom', rank: 'cause', message: '', advice: '', retry: '', evidence: [], count: 1 } as const
  const all = [
    report,
    { ...report, errorRaw: 'read EPIPE' },
    { ...report, errorRaw: 'HTTP 500 {"type":"error","error":{"type":"overloaded_error"}}' },
    { ...report, errorRaw: 'HTTP 500 {"type":"error","error":{"type":"api_error"}}' },
    { ...report, category: 'model_overloaded' as const },
    { ...report, phase: 'headers' },
    { ...report, diagnostics: [cause] },
    {
      ...report,
      diagnostics: [
        { ...cause, rank: 'hint' as const, id: 'slow' },
        { ...cause, id: 'disk' },
      ],
    },
  ]
  assert.equal(new Set(all.map(fingerprint)).size, all.length)
  assert.equal(fingerprint({ ...report, diagnostics: [{ ...cause, rank: 'hint' }] }), fingerprint(report))
})

test('a fingerprint is stored, so it never changes', () => {
  assert.equal(of('read ECONNRESET'), '0b399d45be4e54d2')
  assert.equal(of(''), 'dde5cffec2aa7ed4')
})

test('any text has a fingerprint, and a long one takes no long time', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (text) => {
      assert.match(fingerprint({ category: 'other', errorRaw: text, diagnostics: [] }), /^[0-9a-f]{16}$/)
    }),
    { numRuns: 60 },
  )
  for (const hostile of ['a.'.repeat(50_000), 'a-'.repeat(50_000), '0:'.repeat(50_000), 'f'.repeat(100_000)])
    assert.match(fingerprint({ category: 'other', errorRaw: hostile, diagnostics: [] }), /^[0-9a-f]{16}$/)
})
