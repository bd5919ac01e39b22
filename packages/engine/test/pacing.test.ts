/** Probes that many turns share. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../src/clock.ts'
import { Pacing } from '../src/loop/pacing.ts'

test('a fresh probe starts after it was asked for, and all who ask while one runs share the next one', async () => {
  const pacing = new Pacing({ probeMs: 60_000, clock: systemClock({ now: Date.now }) })
  const runs: PromiseWithResolvers<boolean>[] = []
  const run = (): Promise<boolean> => {
    const started = Promise.withResolvers<boolean>()
    runs.push(started)
    return started.promise
  }
  const first = pacing.freshProbe('runner', run)
  const [second, third] = [pacing.freshProbe('runner', run), pacing.freshProbe('runner', run)]
  assert.equal(runs.length, 1)
  runs[0]?.resolve(false)
  assert.equal(await first, false)
  await new Promise(setImmediate)
  assert.equal(runs.length, 2)
  const fourth = pacing.freshProbe('runner', run)
  runs[1]?.resolve(true)
  assert.deepEqual(await Promise.all([second, third]), [true, true])
  await new Promise(setImmediate)
  runs[2]?.resolve(false)
  assert.equal(await fourth, false)
  const fifth = pacing.freshProbe('runner', run)
  assert.equal(runs.length, 4, 'no result is kept')
  runs[3]?.resolve(true)
  assert.equal(await fifth, true)
})

test('a probe ends when the last of those who wait for it has gone, and the next caller starts another', async () => {
  const pacing = new Pacing({ probeMs: 60_000, clock: systemClock({ now: Date.now }) })
  const runs: AbortSignal[] = []
  const run = (signal: AbortSignal): Promise<boolean> => {
    runs.push(signal)
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve(false)))
  }
  const [first, second] = [new AbortController(), new AbortController()]
  const results = [pacing.probe('model', first.signal, run), pacing.probe('model', second.signal, run)]
  first.abort()
  assert.deepEqual(
    runs.map(({ aborted }) => aborted),
    [false],
  )
  second.abort()
  assert.deepEqual(await Promise.all(results), [false, false])
  const third = pacing.probe('model', new AbortController().signal, async () => true)
  assert.equal(await third, true, 'the result of a probe that was ended is not used')
  const late = new AbortController()
  assert.equal(await pacing.probe('model', late.signal, run), true)
  late.abort()
  assert.equal(await pacing.probe('model', new AbortController().signal, run), true, 'a result is kept')
})
