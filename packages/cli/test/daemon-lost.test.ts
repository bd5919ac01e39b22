import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault } from '@breakfall/faults'
import { keptFault } from '../src/daemon/lost.ts'

test('the fault of an unreachable daemon says what becomes of the turn and what to do; other faults stay as they are', () => {
  const away = keptFault(new Fault('daemon_unreachable', { facts: { address: 'http://127.0.0.1:1' } }), 's1')
  assert.ok(isFault(away))
  assert.match(
    away.error,
    /answer\. The turn is saved in the journal\. Restart the daemon with "breakfall up".*breakfall run --session s1$/,
  )
  const other = new Fault('not_found')
  assert.equal(keptFault(other, 's1'), other)
})
