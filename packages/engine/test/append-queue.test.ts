/** Which appends travel together, and which wait. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppendQueue, type Waiting } from '../src/store/postgres/append-queue.ts'
import type { Append } from '../src/store/store.ts'

const EVENT = { seq: 1, type: 'text-delta', turnId: 't', body: '{}' }

/** A queue with one append for each of these sessions, in this order. */
function queueOf(...sessions: readonly (string | Append)[]): AppendQueue {
  const queue = new AppendQueue()
  for (const each of sessions) {
    const append = typeof each === 'string' ? { sessionId: each, epoch: 1, after: 0, events: [EVENT] } : each
    queue.add({ append, resolve: () => undefined, reject: () => undefined })
  }
  return queue
}

const ids = (batch: readonly Waiting[]): string => batch.map(({ append }) => append.sessionId).join(' ')
const many = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `s${n}`)

test('a few appends travel together, many are divided among the free connections', () => {
  assert.deepEqual([queueOf(...many(32)).take(2).length, queueOf(...many(64)).take(2).length], [32, 32])
  const queue = queueOf(...many(200))
  assert.deepEqual([queue.take(2).length, queue.take(1).length, queue.take(1).length], [100, 100, 0])
  assert.equal(queueOf(...many(3_000)).take(1).length, 1_000)
})

test('of one session, an append leaves only when the one before is done', () => {
  const queue = queueOf('a', 'b', 'a')
  const first = queue.take(2)
  assert.deepEqual([ids(first), ids(queue.take(1))], ['a b', ''])
  queue.done(first)
  assert.equal(ids(queue.take(1)), 'a')
})

test('an append with a key travels alone, and what follows it in its session waits', () => {
  const key = { scope: 'a', key: 'k', requestHash: 'h', receipt: 'r' }
  const queue = queueOf('b', { sessionId: 'a', epoch: 1, after: 0, events: [EVENT], key }, 'a', 'c')
  assert.deepEqual([ids(queue.take(1)), ids(queue.take(1)), ids(queue.take(1))], ['b c', 'a', ''])
})

test('an append that was put back leaves before the later ones of its session', () => {
  const queue = queueOf('a', 'a', 'b')
  const [locked] = queue.take(1)
  assert.ok(locked !== undefined)
  queue.putBack(locked)
  queue.done([locked])
  assert.equal(
    queue.take(1).find(({ append }) => append.sessionId === 'a'),
    locked,
  )
})

test('an append that was put back to travel alone does, behind the other sessions', () => {
  const queue = queueOf('a', 'b', 'c')
  const batch = queue.take(1)
  for (const waiting of batch) queue.putBack({ ...waiting, isAlone: true })
  queue.done(batch)
  assert.deepEqual([ids(queue.take(1)), ids(queue.take(1)), ids(queue.take(1))], ['a', 'b', 'c'])
})

test('a session is settled when all of its appends are answered', async () => {
  const queue = queueOf('a', 'a')
  let isSettled = false
  const settled = queue.settled('a').then(() => (isSettled = true))
  const first = queue.take(1)
  first[0]?.resolve()
  queue.done(first)
  await new Promise(setImmediate)
  assert.equal(isSettled, false)
  queue.take(1)[0]?.resolve()
  await settled
})

test('an append larger than a batch still leaves', () => {
  const huge = { sessionId: 'a', epoch: 1, after: 0, events: [{ ...EVENT, body: 'x'.repeat(5_000_000) }] }
  const queue = queueOf(huge, 'b')
  assert.deepEqual([ids(queue.take(1)), ids(queue.take(1))], ['a', 'b'])
})
