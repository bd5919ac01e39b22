/** How many tasks run at once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Mutex, Semaphore } from '@breakfall/faults/internal'

for (const [name, lock, max] of [
  ['a mutex', new Mutex(), 1],
  ['a semaphore of three', new Semaphore(3), 3],
] as const)
  test(`${name} runs no more tasks at once, in order of arrival, and a task that fails gives its place on`, async () => {
    const started: number[] = []
    let running = 0
    let most = 0
    const tasks = Array.from({ length: 20 }, (_, n) =>
      lock.run(async () => {
        started.push(n)
        most = Math.max(most, (running += 1))
        await new Promise((resolve) => setImmediate(resolve))
        running -= 1
        if (n % 4 === 1) throw new Error(`task ${n}`)
        return n
      }),
    )
    const ended = await Promise.allSettled(tasks)
    assert.equal(most, max)
    assert.deepEqual(
      started,
      Array.from({ length: 20 }, (_, n) => n),
    )
    assert.deepEqual(
      ended.flatMap((end, n) => (end.status === 'rejected' ? [n] : [])),
      [1, 5, 9, 13, 17],
    )
  })
