/** What a turn costs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { costOf } from '../src/turn/cost.ts'

const known = (value: number) => ({ value, quality: 'known' }) as const
const price = { in: 3, out: 15 }
const usage = {
  inputTokens: known(1_000_000),
  outputTokens: known(100_000),
  cacheReadTokens: 800_000,
  cacheWriteTokens: 100_000,
}

test('input from a cache and into it has its own price', () => {
  assert.deepEqual(costOf(usage, { ...price, cacheRead: 0.3, cacheWrite: 3.75 }), {
    value: 0.3 + 0.24 + 0.375 + 1.5, // 100,000 fresh, 800,000 read, 100,000 written, 100,000 out
    currency: 'USD',
    quality: 'known',
  })
})

test('without a price for the cache its tokens count as any other input, and the cost is an estimate', () => {
  assert.deepEqual(costOf(usage, price), { value: 4.5, currency: 'USD', quality: 'estimated' })
  const { cacheReadTokens: _read, cacheWriteTokens: _written, ...plain } = usage
  assert.equal(costOf({ ...plain, cacheReadTokens: 0 }, price)?.quality, 'known')
})
