/** A poll misses no request, whenever it comes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../src/clock.ts'
import { Poll } from '../src/poll.ts'

const CLOCK = systemClock({ now: Date.now })
const NEVER_MS = 60_000

test('a request is followed by a run, however many microtasks after the last one it comes', async () => {
  for (let microtasks = 0; microtasks < 12; microtasks += 1) {
    let runs = 0
    const poll = new Poll(
      () => NEVER_MS,
      async () => void (runs += 1),
      CLOCK,
    )
    poll.now()
    for (let n = 0; n < microtasks; n += 1) await Promise.resolve()
    const before = runs
    poll.now()
    await new Promise(setImmediate)
    assert.equal(runs, before + 1, `asked after ${microtasks} microtasks`)
    await poll.close()
  }
})

test('requests during a run cause one more, and none runs beside another', async () => {
  let [runs, atOnce, most] = [0, 0, 0]
  const poll = new Poll(
    () => NEVER_MS,
    async () => {
      atOnce += 1
      most = Math.max(most, atOnce)
      runs += 1
      await new Promise(setImmediate)
      atOnce -= 1
    },
    CLOCK,
  )
  poll.now()
  for (let n = 0; n < 5; n += 1) poll.now()
  while (runs < 2) await new Promise(setImmediate)
  await poll.close()
  assert.deepEqual([runs, most], [2, 1])
  poll.now()
  assert.equal(runs, 2, 'none follows the close')
})
