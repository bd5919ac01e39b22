import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdleExit } from '../src/server/idle-exit.ts'

const clockOf = (ms: () => number) => ({ now: ms, monotonicMs: ms, machineBootId: 'test' })

test('a runner ends after a while without a call or an exec, and at once if its state folder was removed', (t) => {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] })
  let [busy, gone, ended] = [true, false, 0]
  const idle = new IdleExit(
    60_000,
    clockOf(() => Date.now()),
    { isBusy: () => busy, isGone: () => gone },
  )
  idle.start(() => (ended += 1))
  t.mock.timers.tick(120_000)
  assert.equal(ended, 0, 'an exec is running')
  busy = false
  t.mock.timers.tick(55_000)
  assert.equal(ended, 0)
  t.mock.timers.tick(10_000)
  assert.ok(ended > 0, 'it is not needed')
  ended = 0
  busy = true
  t.mock.timers.tick(5_000)
  assert.equal(ended, 0)
  gone = true
  t.mock.timers.tick(5_000)
  assert.equal(ended, 1, 'no client can find it')
  idle.stop()
})
