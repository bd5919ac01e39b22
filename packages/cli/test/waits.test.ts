import assert from 'node:assert/strict'
import { test } from 'node:test'
import { goesOn } from '../src/render/waits.ts'

test('of a refused key it is not promised that the turn goes on without another one', () => {
  assert.match(
    goesOn('s', true, 'model_auth_failed'),
    /goes on by itself when its daemon has another key: .*; to try now/,
  )
  assert.equal(goesOn('s', true, 'network_down'), 'goes on by itself; to try now: breakfall resume s')
})
