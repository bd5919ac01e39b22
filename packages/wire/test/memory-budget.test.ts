/** The memory budget of a process, and the shares of its requests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryBudget, unboundedShare } from '../src/node/memory-budget.ts'

test('shares together never hold more than the budget, and a refused take takes nothing', () => {
  const budget = new MemoryBudget(100)
  const [one, other] = [budget.open(), budget.open()]
  assert.equal(one.take(60), true)
  assert.equal(other.take(41), false)
  assert.deepEqual([budget.bytes, other.bytes], [60, 0])
  assert.equal(other.take(40), true)
  one.give(10)
  assert.equal(other.take(10), true)
  assert.deepEqual([one.bytes, other.bytes, budget.bytes], [50, 50, 100])
})

test('a closed share gives everything back once, and takes nothing more', () => {
  const budget = new MemoryBudget(100)
  const share = budget.open()
  share.take(80)
  share.close()
  share.close()
  share.give(80) // by someone who did not notice
  assert.equal(share.take(1), false)
  assert.equal(budget.bytes, 0)
})

test('giving back more than was taken is a bug that shows', () => {
  const share = unboundedShare()
  share.take(5)
  assert.throws(() => share.give(6))
})
