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

test('without a daemon, the text promises only the turns that up continues', () => {
  for (const category of ['network_down', 'model_unreachable', 'model_quota_exhausted', 'runner_not_available', 'x'])
    assert.match(howItContinues('s', false, category), /breakfall up continues it automatically$/, category)
  for (const category of ['model_auth_failed', 'mcp_auth_failed', 'runner_auth_failed', 'isolation_unavailable'])
    assert.match(howItContinues('s', false, category), /--session s; under breakfall up: breakfall resume s$/, category)
})
