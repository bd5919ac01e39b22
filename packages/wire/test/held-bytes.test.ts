/** Bytes that arrive piece by piece, held in few blocks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HeldBytes } from '../src/node/index.ts'

test('pieces of any size come out in order, and every block was taken before it was made', () => {
  let taken = 0
  const held = new HeldBytes((bytes) => (taken += bytes))
  const pieces = [1, 5_000, 1, 70_000, 3, 100, 20_000, 16 * 1024, 1].map((length, index) =>
    Buffer.alloc(length, index + 1),
  )
  for (const piece of pieces) held.add(piece)
  assert.deepEqual(Buffer.concat(held.blocks()), Buffer.concat(pieces))
  assert.equal(held.length, Buffer.concat(pieces).length)
  assert.equal(taken, held.memory)
  assert.equal(taken, held.blocks().reduce((bytes, block) => bytes + block.buffer.byteLength, 0)) // prettier-ignore
})

test('a body that comes byte by byte is held in a few blocks, of less than twice its size', () => {
  const held = new HeldBytes()
  const byte = Buffer.from('x')
  for (let count = 0; count < 300_000; count++) held.add(byte)
  assert.ok(held.blocks().length < 16, `${held.blocks().length}`)
  assert.ok(held.memory < 2 * 300_000 + 1024)
})

test('a small part of a large buffer does not keep the buffer', () => {
  const held = new HeldBytes()
  const large = Buffer.alloc(1024 * 1024)
  for (let index = 0; index < 10; index++) held.add(large.subarray(index * 20_000, (index + 1) * 20_000))
  assert.ok(held.memory < 500_000)
  assert.ok(held.blocks().every((block) => block.buffer !== large.buffer))
})

test('when no more is to be had, the piece is not held', () => {
  const held = new HeldBytes((bytes) => {
    if (held.memory + bytes > 100_000) throw new Error('no room')
  })
  held.add(Buffer.alloc(60_000))
  assert.throws(() => held.add(Buffer.alloc(60_000)), /no room/)
  assert.deepEqual([held.length, held.memory], [60_000, 60_000])
})
