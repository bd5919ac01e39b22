import assert from 'node:assert/strict'
import test from 'node:test'
import { contextSizeIn } from '@breakfall/faults/internal'
import { CONTEXT_SIZES } from '../src/context-size.ts'

for (const { seen } of CONTEXT_SIZES)
  test(`the limit and the size of the request are read from: ${seen}`, () => {
    const { limitTokens, requestTokens } = contextSizeIn({ errorRaw: `HTTP 400 {"error":{"message":"${seen}"}}` })
    assert.ok(limitTokens !== null && requestTokens !== null && limitTokens <= requestTokens + 20_000)
  })

test('a limit without a size is read, and anything else is unknown', () => {
  const limit = contextSizeIn({ errorRaw: "This model's maximum context length is 4096 tokens." })
  assert.deepEqual(limit, { limitTokens: 4096, requestTokens: null })
  assert.deepEqual(contextSizeIn({ errorRaw: 'too long' }), { limitTokens: null, requestTokens: null })
})
