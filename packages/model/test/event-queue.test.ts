/** The queue between the client and its consumer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { EventQueue } from '../src/lib/event-queue.ts'

function queue() {
  const said: string[] = []
  const events = new EventQueue<number>({
    onFull: () => said.push('full'),
    onRoom: () => said.push('room'),
    onLeft: () => said.push('left'),
  })
  return { events, said }
}

const texts = () => ({
  events: new EventQueue<string>({ onFull: () => undefined, onRoom: () => undefined, onLeft: () => undefined }),
})

test('every event is taken once and in order, however pushing and taking alternate', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 200 }), async (pushes) => {
      const { events } = queue()
      const taken: Promise<IteratorResult<number, undefined>>[] = []
      let pushed = 0
      for (const isPush of pushes) {
        if (isPush) events.push(pushed++)
        else if (taken.length <= pushed) taken.push(events.next())
      }
      events.close()
      while (taken.length < pushed) taken.push(events.next())
      const values = (await Promise.all(taken)).filter(({ done }) => done !== true).map(({ value }) => value)
      assert.deepEqual(
        values,
        Array.from({ length: pushed }, (_, index) => index),
      )
    }),
  )
})

test('the producer learns once that the consumer is behind, and once that there is room again', async () => {
  const { events, said } = queue()
  for (let index = 0; index < 3_000; index++) events.push(index)
  assert.deepEqual(said, ['full'])
  assert.equal(events.isFull, true)
  for (let index = 0; index < 3_000; index++) await events.next()
  assert.deepEqual(said, ['full', 'room'])
  assert.equal(events.isFull, false)
})

test('the producer learns once that the consumer left, and the consumer gets nothing more', async () => {
  const { events, said } = queue()
  events.push(1)
  await events.return()
  await events.return()
  events.push(2)
  assert.deepEqual(await events.next(), { done: true, value: undefined })
  assert.deepEqual(said, ['left'])
})

test('events pushed before the end can be taken after it, and waiting calls end', async () => {
  const { events } = queue()
  const waiting = queue()
  const next = waiting.events.next()
  waiting.events.close()
  assert.deepEqual(await next, { done: true, value: undefined })
  events.push(1)
  events.close()
  assert.deepEqual(await events.next(), { done: false, value: 1 })
  assert.deepEqual(await events.next(), { done: true, value: undefined })
})

test('a consumer that never quite catches up holds only what it has not taken', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const { events } = texts()
  collect()
  const before = process.memoryUsage().heapUsed
  for (let pushed = 0; pushed < 200; pushed++) events.push(`${pushed}`.padEnd(200, 'x'))
  for (let pushed = 200; pushed < 100_000; pushed++) {
    events.push(`${pushed}`.padEnd(200, 'x'))
    await events.next()
  }
  collect()
  const grown = process.memoryUsage().heapUsed - before
  assert.ok(grown < 6 * 2 ** 20, `the heap grew by ${Math.round(grown / 2 ** 20)} MiB, and 200 events wait`)
  assert.ok(((await events.next()).value ?? '').startsWith('99800x'))
})
