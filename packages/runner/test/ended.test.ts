/** Which ended processes still count against the limit of their box. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { EndedProcesses } from '../src/box/ended.ts'

describe('ended processes', async () => {
  test('count until they are collected, also if their pid is used again', () => {
    const table = new Map([
      [10, 1],
      [11, 2],
    ])
    const ended = new EndedProcesses((pid) => table.get(pid), 100)
    ended.add([10, 11, 12]) // 12 is collected already
    assert.equal(ended.count(100), 2)
    table.delete(10)
    table.set(11, 99) // another process
    ended.collect(100)
    assert.equal(ended.count(100), 0)
  })

  test('are looked at in turns: those that stay do not hide those that go', () => {
    const table = new Map(Array.from({ length: 10 }, (_, i) => [i, i]))
    const ended = new EndedProcesses((pid) => table.get(pid), 100)
    ended.add(table.keys())
    for (let i = 3; i < 10; i += 1) table.delete(i) // 0, 1 and 2 stay
    for (let round = 0; round < 4; round += 1) ended.collect(3)
    assert.equal(ended.count(100), 3)
  })

  test('are counted up to a maximum, and collected ones make room', () => {
    const table = new Map(Array.from({ length: 10 }, (_, i) => [i, i]))
    const ended = new EndedProcesses((pid) => table.get(pid), 4)
    ended.add(table.keys())
    assert.equal(ended.count(100), 4)
    table.delete(0)
    table.delete(1)
    ended.add([7, 8, 9])
    assert.equal(ended.count(100), 4)
  })

  test('are counted up to the limit of the box while they are fresh, and all once they turn out to stay', () => {
    const table = new Map(Array.from({ length: 500 }, (_, i) => [i, i]))
    const ended = new EndedProcesses((pid) => table.get(pid), 1_000)
    ended.add(table.keys()) // a command with 500 processes was killed
    assert.deepEqual([ended.count(40), ended.count(200)], [64, 200])
    ended.collect(300)
    assert.equal(ended.count(200), 500)
  })
})
