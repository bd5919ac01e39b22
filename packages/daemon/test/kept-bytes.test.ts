/** Copies of what was sent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeptBytes } from '../src/store/postgres/kept-bytes.ts'

const MIB = 1024 * 1024

test('a copy is intact until it is dropped, and then its memory is used again', () => {
  const kept = new KeptBytes()
  const sent = Buffer.alloc(MIB / 4)
  const keep = (fill: number): Buffer => kept.keep(sent.fill(fill))
  const copies = [1, 2, 3, 4, 5].map(keep)
  for (const [index, copy] of copies.entries()) assert.ok(copy.every((byte) => byte === index + 1))
  for (let nr = 0; nr < 4; nr += 1) kept.dropOldest()
  const again = [6, 7, 8, 9].map(keep)
  assert.ok(
    copies[4]?.every((byte) => byte === 5),
    'it was not dropped',
  )
  for (const [index, copy] of again.entries()) assert.ok(copy.every((byte) => byte === index + 6))
  assert.equal(again.at(-1)?.buffer, copies[0]?.buffer)
})

test('what is larger than a piece of memory, and what has no bytes at all, is kept and dropped in its turn', () => {
  const kept = new KeptBytes()
  const all = [0, 2 * MIB, 5, 0].map((length, nr) => kept.keep(Buffer.alloc(length, nr)))
  assert.deepEqual(
    all.map(({ length }) => length),
    [0, 2 * MIB, 5, 0],
  )
  for (let nr = 0; nr < 3; nr += 1) kept.dropOldest()
  kept.keep(Buffer.alloc(MIB, 7))
  assert.deepEqual(all[3], Buffer.alloc(0))
  for (let nr = 0; nr < 5; nr += 1) kept.dropOldest() // more than there are
  assert.deepEqual(kept.keep(Buffer.from('x')), Buffer.from('x'))
})
