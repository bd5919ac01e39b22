import assert from 'node:assert/strict'
import { test } from 'node:test'
import { headline, SIGNATURES } from '../src/index.ts'

test('message and advice do not repeat each other, whichever says more', () => {
  assert.equal(headline('the port is taken', 'The port is taken. Use another.'), 'The port is taken. Use another.')
  assert.equal(
    headline('not enough system memory for the model', 'Not enough system memory. Use a smaller model.'),
    'not enough system memory for the model. Use a smaller model.',
  )
  assert.equal(headline('it crashed', 'Update the driver.'), 'it crashed. Update the driver.')
  assert.equal(headline('it crashed', ''), 'it crashed')
  assert.equal(headline('it crashed early', 'It crashed.'), 'it crashed early')
})

test('no message of a signature appears twice in one sentence', () => {
  const plain = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9 ]/g, '')
  const twice = SIGNATURES.filter(({ message, advice }) => {
    const parts = headline(message, advice)
      .split(/(?<=[.;])\s/)
      .map(plain)
    return parts.some((part, i) => parts.some((other, j) => i !== j && part !== '' && other.startsWith(part)))
  })
  assert.deepEqual(
    twice.map(({ id }) => id),
    [],
  )
})
