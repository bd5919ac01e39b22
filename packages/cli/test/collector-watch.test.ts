import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backgroundFinding } from '../src/commands/doctor/storage.ts'
import { logLine, warningLine } from '../src/render/log-lines.ts'
import { collectorWatch } from '../src/telemetry/otlp.ts'

test('a collector that is gone is reported once, once more when it is back, and again after its next failure', () => {
  const watch = collectorWatch('http://127.0.0.1:4318')
  assert.equal(watch('traces', undefined), undefined)
  assert.match(watch('metrics', 'ECONNREFUSED') ?? '', /at http:\S+ does not take metrics \(ECONNREFUSED\)\. .* drops/)
  for (const signal of ['traces', 'metrics', 'traces'] as const) assert.equal(watch(signal, 'ECONNREFUSED'), undefined)
  assert.equal(watch('traces', undefined), undefined, 'metrics still fail')
  assert.match(watch('metrics', undefined) ?? '', /takes spans and metrics again/)
  assert.equal(watch('metrics', undefined), undefined)
  assert.match(watch('traces', 'HTTP 503') ?? '', /does not take traces \(HTTP 503\)/)
})

test('a warning of ours reads like any other line of the log', () => {
  assert.equal(logLine(warningLine('It is gone.', 0)), '1970-01-01 00:00:00 UTC  It is gone.')
})

test('the doctor names processes that are still running, and says nothing if there are none', () => {
  assert.deepEqual(backgroundFinding([]), [])
  assert.match(backgroundFinding(['web'])[0]?.found ?? '', /^1 background process .*: web$/)
  assert.match(
    backgroundFinding('abcdefg'.split(''))[0]?.found ?? '',
    /^7 background processes .*: a, b, c, d, e and more$/,
  )
})
