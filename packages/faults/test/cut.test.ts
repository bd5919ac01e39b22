import assert from 'node:assert/strict'
import { test } from 'node:test'
import { classify, redactBounded, redactStart } from '@breakfall/faults'
import { cutEnd, cutStart } from '@breakfall/faults/internal'

const KEY = 'an-unusual-key.without_a/known+shape=='

/** What is left of a key of unknown shape, unless it is there whole. */
function pieceOf(text: string): string | undefined {
  if (text.includes(KEY)) return undefined
  return [KEY.slice(0, 6), KEY.slice(-6)].find((piece) => text.includes(piece))
}

test('after any cut, a key in the text is whole or absent', () => {
  for (const [before, after] of [
    [' ', ' '],
    ['"key":"', '","'],
    ['(', ')'],
    ['\\"', '\\"'],
  ]) {
    const text = 'some words, '.repeat(40) + before + KEY + after + ' and so on'.repeat(40)
    for (let chars = 100; chars < text.length; chars += 1) {
      for (const cut of [cutStart, cutEnd, redactStart, redactBounded]) {
        const out = cut(text, chars)
        assert.ok(out.length <= chars && out.length >= chars / 4, `${cut.name} at ${chars}: ${out.length}`)
        assert.equal(pieceOf(out), undefined, `${cut.name} at ${chars}: ${out}`)
      }
    }
  }
})

test('a text without a word boundary is cut at the limit, and a short text is not cut', () => {
  assert.equal(cutStart('x'.repeat(1_000), 100), 'x'.repeat(100))
  assert.equal(cutEnd('x'.repeat(1_000), 100), 'x'.repeat(100))
  assert.equal(cutStart(`${'y'.repeat(40)} ${'x'.repeat(1_000)}`, 100), `${'y'.repeat(40)} ${'x'.repeat(59)}`, 'half')
  assert.equal(cutStart('two words', 9), 'two words')
  assert.equal(cutStart('two words', 3), 'two')
  assert.equal(cutEnd('two words', 5), 'words')
})

test('no half of a key is left in the report of a response that quotes it at any position', () => {
  for (let before = 3_950; before < 4_110; before += 1) {
    const body = {
      error: { message: `${'no! '.repeat(before / 4)}${'-'.repeat(before % 4)} ${KEY} ${'and '.repeat(99)}` },
    }
    const { report } = classify(undefined, { boundary: 'model', response: { status: 400, body } })
    assert.equal(
      pieceOf(report.errorRaw) ?? pieceOf(report.error),
      undefined,
      `${before}: ${report.errorRaw.slice(-80)}`,
    )
  }
})
