/** A dead child's pid may belong to a stranger by now. The start time tells them apart; no test needs to choose pids. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { it } from 'node:test'
import { HAS_PROCESS_TABLE, readProcess } from '../../src/platform.ts'
import { familyOf, signalEntry, signalGroup } from '../../src/process-table.ts'
import { isAlive } from '../child-fixture.ts'

it('an unrelated process that reuses the pid of a dead child is not in its family and gets no signal', async (t) => {
  if (!HAS_PROCESS_TABLE) return t.skip('this system has no process table')
  const stranger = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' })
  await once(stranger, 'spawn')
  const pid = stranger.pid ?? 0
  t.after(() => stranger.kill('SIGKILL'))
  const startTime = readProcess(pid)?.startTime ?? 0
  const dead = { pid, startTime: startTime - 1, runId: 'a-run-that-is-over' } // the child had this pid before
  assert.deepEqual(familyOf(dead), [])
  assert.equal(signalGroup(dead, 'SIGKILL'), false)
  assert.equal(signalEntry(dead, 'SIGKILL'), false)
  assert.ok(isAlive(pid), 'the stranger lives')
  assert.deepEqual(
    familyOf({ ...dead, startTime }).map((entry) => entry.pid),
    [pid], // with its own start time it would have been found
  )
})
