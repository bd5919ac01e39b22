import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault } from '@breakfall/faults'
import { withHowToContinue } from '../src/daemon/find.ts'

test("an unreachable daemon's fault says how to continue the turn; other faults are unchanged", () => {
  const away = withHowToContinue(new Fault('daemon_unreachable', { facts: { address: 'http://127.0.0.1:1' } }), 's1')
  assert.ok(isFault(away))
  assert.match(
    away.error,
    /answer\. The turn is saved in the journal\. Restart the daemon with "breakfall up".*breakfall run --session s1$/,
  )
  const other = new Fault('not_found')
  assert.equal(withHowToContinue(other, 's1'), other)
})
