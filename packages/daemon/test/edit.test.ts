import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeEdit } from '../src/engine/file-tools.ts'

const told = (content: string, old: string, text: string, mayHaveWritten: boolean): string => {
  const verdict = judgeEdit(content, { old, new: text }, mayHaveWritten)
  return verdict.do === 'write' ? 'write' : verdict.outcome.outcome
}

test('a new edit writes if the text occurs exactly once', () => {
  assert.equal(told('a b c', 'b', 'x', false), 'write')
  assert.equal(told('a b b', 'b', 'x', false), 'failed')
  assert.equal(told('a c', 'b', 'x', false), 'failed')
})

test('an interrupted edit counts as done if the new text is there and the old text is gone', () => {
  assert.equal(told('a x c', 'b', 'x', true), 'ok')
})

test('an interrupted edit is applied if the old text is there once', () => {
  assert.equal(told('a b c', 'b', 'x', true), 'write')
  assert.equal(told('x a b c', 'b', 'x', true), 'write')
})

test('an interrupted edit that leaves no trace either way is unknown and never repeated', () => {
  assert.equal(told('a c', 'b', 'x', true), 'unknown')
  assert.equal(told('b b', 'b', 'x', true), 'unknown')
  assert.equal(told('a bb c', 'b', 'bb', true), 'unknown')
  assert.equal(told('line\nline2\n', 'line\n', 'line\nline2\n', true), 'unknown')
})
