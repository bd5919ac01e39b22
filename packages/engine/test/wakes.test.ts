/** A wake ends a wait, whenever it comes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleep } from '@breakfall/faults'
import { Wakes } from '../src/session/wakes.ts'

/** A turn's loop: it looks at the state, and waits in several ways until the state is what it needs. */
async function untilDone(wakes: Wakes, isDone: () => boolean): Promise<void> {
  const waits: readonly ((signal: AbortSignal) => Promise<unknown>)[] = [
    async () => undefined,
    async () => {
      for (let n = 0; n < 3; n += 1) await Promise.resolve()
    },
    (signal) => sleep(3_600_000, signal),
  ]
  for (;;) {
    wakes.look()
    if (isDone()) return
    await Promise.resolve()
    for (const wait of waits) if ((await wakes.unlessWoken(wait)) === 'woken') break
  }
}

test('a change that comes with a wake is seen at once, at whatever moment it comes', async () => {
  for (let microtasks = 0; microtasks < 60; microtasks += 1) {
    const wakes = new Wakes()
    let isDone = false
    let isOver = false
    const loop = untilDone(wakes, () => isDone).then(() => (isOver = true))
    for (let n = 0; n < microtasks; n += 1) await Promise.resolve()
    isDone = true
    wakes.wake()
    await new Promise(setImmediate)
    const wasLost = !isOver
    wakes.wake() // ends the sleep of an hour
    await loop
    assert.equal(wasLost, false, `woken after ${microtasks} microtasks`)
  }
})

test('a wake ends the work, and a wait without one returns what the work found', async () => {
  const wakes = new Wakes()
  assert.equal(await wakes.unlessWoken(async () => 'found'), 'found')
  let given: AbortSignal | undefined
  const waiting = wakes.unlessWoken((signal) => {
    given = signal
    return new Promise<never>(() => undefined)
  })
  assert.equal(given?.aborted, false)
  wakes.wake()
  assert.equal(await waiting, 'woken')
  assert.equal(given?.aborted, true)
  assert.equal(await wakes.unlessWoken(async () => 'again'), 'again', 'one wake ends one wait')
})
