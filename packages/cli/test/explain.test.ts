import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Fault, toProblem } from '@breakfall/faults'
import { explain } from '../src/explain.ts'

type Sample = { readonly id: string; readonly sample?: string; readonly line?: string; readonly text?: string }
const fixture = (name: string): readonly Sample[] =>
  readFileSync(new URL(`../../../fixtures/${name}`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sample)
const sampleOf = (row: Sample): string => row.sample ?? row.line ?? row.text ?? ''

test('every captured failure line is recognised by its signature', () => {
  // Rows without a sample are known by their exit status, not by a line.
  const rows = fixture('signatures.jsonl').filter((row) => sampleOf(row) !== '')
  assert.ok(rows.length > 100)
  for (const row of rows) {
    const { report } = explain(sampleOf(row))
    assert.ok(
      report.diagnostics.some(({ id }) => id === row.id),
      `${row.id}: ${sampleOf(row)}`,
    )
  }
})

test('a fault report, a problem document and a turn-error come back as they are', () => {
  const fault = new Fault('journal_full', { errorRaw: 'ENOSPC' })
  for (const value of [fault.report, toProblem(fault), { type: 'turn-error', seq: 4, ...fault.report }]) {
    const { report, by } = explain(JSON.stringify(value))
    assert.equal(report.category, 'journal_full')
    assert.equal(report.errorRaw, 'ENOSPC')
    assert.equal(by, 'a fault report')
  }
})

test("a provider's error body, alone or inside a log", () => {
  assert.equal(
    explain(
      '{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}',
    ).report.category,
    'model_quota_exhausted',
  )
  assert.equal(
    explain(
      '12:00:01 request failed\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n',
    ).report.category,
    'model_overloaded',
  )
})

test('error codes and their texts, by the boundary that was named', () => {
  const node =
    "TypeError: fetch failed\n    at node:internal\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:11434 {\n    code: 'ECONNREFUSED' }"
  assert.equal(explain(node).report.category, 'model_unreachable')
  assert.equal(explain(node, 'runner').report.category, 'runner_unreachable')
  assert.equal(explain('read SSE stream: unexpected EOF').report.category, 'model_stream_interrupted')
  assert.equal(explain('HTTP/1.1 429 Too Many Requests').report.category, 'model_rate_limited')
})

test('an exit code says what it usually means', () => {
  const { report, by } = explain('137')
  assert.equal(by, 'an exit status')
  assert.equal(report.category, 'process_failed')
})

test('nothing recognised is other, without diagnostics', () => {
  for (const text of ['', 'hello there', 'the year 2024 was good', '{"fine": true}']) {
    const { report } = explain(text)
    assert.equal(report.category, 'other', text)
    assert.deepEqual(report.diagnostics, [])
  }
})
