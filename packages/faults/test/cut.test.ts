import assert from 'node:assert/strict'
import { test } from 'node:test'
import { classify, cutEnd, cutStart, redactBounded, redactStart } from '@breakfall/faults'

const KEY = 'an-unusual-key.without_a/known+shape=='

/** What is left of a key of which nobody knows the shape, where it is not there whole. */
function pieceOf(text: string): string | undefined {
  if (text.includes(KEY)) return undefined
  return [KEY.slice(0, 6), KEY.slice(-6)].find((piece) => text.includes(piece))
}

test('wherever a text is cut, a key in it is there whole or not at all', () => {
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

test('what has no end of a word in it is cut where it must be, and what is short enough not at all', () => {
  assert.equal(cutStart('x'.repeat(1_000), 100), 'x'.repeat(100))
  assert.equal(cutEnd('x'.repeat(1_000), 100), 'x'.repeat(100))
  assert.equal(cutStart(`${'y'.repeat(40)} ${'x'.repeat(1_000)}`, 100), `${'y'.repeat(40)} ${'x'.repeat(59)}`, 'half')
  assert.equal(cutStart('two words', 9), 'two words')
  assert.equal(cutStart('two words', 3), 'two')
  assert.equal(cutEnd('two words', 5), 'words')
})

test('the refusal of a server that quotes a key at any place has no half of it anywhere', () => {
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
