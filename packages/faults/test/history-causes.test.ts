import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { classify } from '../src/index.ts'
import { HISTORY_CAUSES } from '../src/history-causes.ts'
import { historyRefusal, isHistoryStatus } from '../src/internal.ts'

type Sample = { readonly provider: string; readonly status: number; readonly body: string; readonly cause: string }
const SAMPLES = readFileSync(new URL('../../../fixtures/bad-requests.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Sample)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
const CAUSES: ReadonlySet<string> = new Set(HISTORY_CAUSES)
const categoryOf = (status: number, body: unknown): readonly unknown[] => {
  const { report } = classify(undefined, { boundary: 'model', phase: 'headers', response: { status, body } })
  return [report.category, report.reason]
}

for (const { provider, status, body, cause } of SAMPLES)
  test(`${provider}, ${cause}: ${body.replaceAll(/[\\"`]/g, '').slice(0, 120)}`, () => {
    const named = historyRefusal(parsed(body))?.cause
    assert.equal(named, CAUSES.has(cause) ? cause : undefined)
    const [category, reason] = categoryOf(status, parsed(body))
    if (named === undefined) assert.notEqual(category, 'model_history_invalid')
    else assert.deepEqual([category, reason], ['model_history_invalid', cause])
  })

test('the sentence is found in whatever a router wraps it, and no deeper than it looks', () => {
  const sentence = 'No tool output found for function call call_1.'
  const wrapped = (times: number): unknown => {
    let body: unknown = { error: { message: sentence } }
    for (let at = 0; at < times; at++) body = { error: { raw: `  ${JSON.stringify(body)}` } }
    return body
  }
  assert.equal(historyRefusal(wrapped(2))?.cause, 'call_without_result')
  assert.equal(historyRefusal([sentence])?.cause, 'call_without_result')
  let deep: unknown = sentence
  for (let at = 0; at < 40; at++) deep = { error: deep }
  assert.equal(historyRefusal(deep), undefined)
  assert.equal(historyRefusal({ message: 'x'.repeat(70_000), more: sentence }), undefined)
  assert.equal(historyRefusal(Array.from({ length: 2_000 }, () => 'x').concat(sentence)), undefined)
})

test('a status that says something else is believed, except from the servers that are known for it', () => {
  const named = { error: { message: 'No tool output found for function call call_1.' } }
  for (const status of [401, 403, 429, 500, 503, 529])
    assert.notEqual(categoryOf(status, named)[0], 'model_history_invalid')
  assert.deepEqual(categoryOf(422, named), ['model_history_invalid', 'call_without_result'])
  assert.ok(isHistoryStatus(500, 'arguments_unparsable') && !isHistoryStatus(500, 'call_without_result'))
  assert.ok(isHistoryStatus(404, 'item_unknown') && !isHistoryStatus(404, 'call_without_result'))
})
