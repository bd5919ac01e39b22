import assert from 'node:assert/strict'
import { test } from 'node:test'
import { howItContinues } from '../src/render/parked.ts'

test('after a rejected key the turn continues only with a new key, and the text says so', () => {
  assert.match(
    howItContinues('s', true, 'model_auth_failed'),
    /^to continue it with the key of your terminal: breakfall resume s; a changed key .* automatically$/,
  )
  assert.equal(howItContinues('s', true, 'network_down'), 'continues automatically; to retry now: breakfall resume s')
})

test('a turn without steps left says how to give it more', () => {
  assert.match(
    howItContinues('s', true, 'quota_exceeded'),
    /as many steps again: breakfall run --session s .*breakfall resume s.*another prompt/,
  )
})
