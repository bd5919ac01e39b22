/** The place in a session's events, whatever carries them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults/caller'
import { EventPosition } from '../src/position.ts'

test('each event is taken once, in order, and the cursor is that of the last one', () => {
  const position = new EventPosition()
  assert.equal(position.cursor, undefined)
  assert.equal(position.take(1, 'j-1'), true)
  assert.equal(position.take(2, 'j-2'), true)
  assert.equal(position.take(1, 'j-1'), false)
  assert.equal(position.take(2, 'j-2'), false)
  assert.equal(position.cursor, 'j-2')
})

test('it continues after a cursor or a number, and a missing event is a fault that does not move the position', () => {
  for (const after of ['j-7', 7]) {
    const position = new EventPosition(after)
    assert.throws(
      () => position.take(9, 'j-9'),
      (error) => isFault(error) && /expected number 8, received 9/.test(error.error),
    )
    assert.equal(position.cursor, after)
    assert.equal(position.take(8, 'j-8'), true)
  }
})

test('only a reset starts over, from the first event of the other journal', () => {
  const position = new EventPosition('j-7')
  position.reset()
  assert.equal(position.cursor, undefined)
  assert.equal(position.take(1, 'k-1'), true)
  assert.equal(position.cursor, 'k-1')
})
