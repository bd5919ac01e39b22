/** What one event of a stream may cost the relay. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventLines } from '../src/attempt/event-lines.ts'
import { MemoryBudget } from '@breakfall/wire/node'
import { HeldFrames } from '../src/relay/held-frames.ts'
import { relayed } from './relayed.ts'
import { answer, done, finish, role, text } from '../../../test/kit/openai-frames.ts'
import { head, lastChunk, pause, type Play } from '../../../test/kit/plays.ts'

const ONE = { policy: { attemptsMax: 1 } } as const
const objects = (count: number): object => ({ more: Array.from({ length: count }, () => ({})) })

test('an event is refused if parsing it has no room in the memory of all requests', async () => {
  const budget = new MemoryBudget(4_000_000)
  const memory = budget.open()
  const costly = text('x', objects(100_000)) // 300 KB, and 20 MB once it is parsed
  const got = await relayed([[head(), role, costly, finish(), done, lastChunk]], { memory, ...ONE })
  assert.deepEqual([got.outcome.fault?.category, got.text], ['quota_exceeded', ''])
  const long = '{},["\\'.repeat(100_000)
  assert.equal((await relayed([answer(long)], { memory, ...ONE })).text, long)
  memory.close()
  assert.equal(budget.bytes, 0)
})

test('an event counts as parsed until the next one comes', async () => {
  const memory = new MemoryBudget(8_000_000).open()
  const large = text('x', objects(25_000)) // 5 MB once it is parsed
  const bytes: number[] = []
  const script: Play = [
    head(),
    role,
    large,
    pause(20),
    large,
    pause(20),
    text('y'),
    pause(20),
    finish(),
    done,
    lastChunk,
  ]
  const got = await relayed([script], { memory, hold: 'none', ...ONE, onWrite: () => bytes.push(memory.bytes) })
  assert.deepEqual([got.text, got.outcome.fault], ['xxy', null])
  assert.ok(Math.max(...bytes) > 5_000_000, bytes.join())
  assert.ok((bytes.at(-1) ?? 0) < 100_000, bytes.join())
})

test('an event that is held parsed counts as parsed', () => {
  const held = new HeldFrames()
  const json = objects(1_000)
  held.add('opening', { data: JSON.stringify(json) }, { ...json }, undefined, [])
  assert.ok(held.bytes > 100_000, String(held.bytes))
})

test('an event of too many lines ends the attempt before it is whole', async () => {
  const lines: Play = [head(), role, 'data:\n'.repeat(100_000), '\n', text('x'), finish(), done, lastChunk]
  const { outcome } = await relayed([lines], ONE)
  assert.equal(outcome.fault?.category, 'model_server_error')
  assert.match(outcome.fault?.errorRaw ?? '', /65536 lines/)
})

test('an event of a few thousand lines is read', async () => {
  const pretty = JSON.stringify(JSON.parse(text('x', objects(5_000)).slice('data: '.length)), null, 1)
  const event = `data: ${pretty.replaceAll('\n', '\ndata: ')}\n\n`
  const got = await relayed([[head(), role, event, finish(), done, lastChunk]], ONE)
  assert.deepEqual([got.text, got.outcome.fault], ['x', null])
})

test('lines are counted to the next empty one, without comments, wherever the bytes are cut', () => {
  const cases: readonly (readonly [string, number])[] = [
    ['data:\ndata:\n', 2],
    ['data: a\n\ndata: b\nda', 1],
    ['data: a\r\ndata: b\r\nid: 1\r\n', 3],
    ['data: a\r\n\r\ndata: b\r\n', 1],
    ['data: a\rdata: b\r', 2],
    ['data: a\r\rdata: b\r', 1],
    ['data: a\n: c\n: c\ndata: b\n', 2],
    ['data: a\n\n', 0],
  ]
  for (const [body, expected] of cases) {
    for (let cut = 0; cut <= body.length; cut++) {
      const lines = new EventLines()
      lines.add(Buffer.from(body.slice(0, cut)))
      lines.add(Buffer.from(body.slice(cut)))
      assert.equal(lines.count, expected, JSON.stringify([body, cut]))
    }
  }
})
