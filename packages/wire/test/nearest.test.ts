import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean, nearest } from '../src/nearest.ts'

test('a slip is one letter put in, left out, mistaken or swapped with its neighbour; longer words may have more', () => {
  const known = ['reset', 'stall', 'status', 'truncate', 'cut_tool_call']
  for (const [word, meant] of [
    ['resett', 'reset'],
    ['rset', 'reset'],
    ['resef', 'reset'],
    ['erset', 'reset'],
    ['RESET', 'reset'],
    ['cut-toolcal', 'cut_tool_call'],
    ['truncaet', 'truncate'],
  ] as const)
    assert.equal(nearest(word, known), meant, word)
})

test('a word that is like none of them gets no hint', () => {
  for (const word of ['nonsense', 'x', '', 'resume-all']) assert.equal(didYouMean(word, ['reset', 'stall']), '', word)
})
