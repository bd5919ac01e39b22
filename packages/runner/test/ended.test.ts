/** Which ended processes still count against the limit of their box. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { EndedProcesses } from '../src/box/ended-pids.ts'
import type { Uncollected } from '../src/exec/process-table.ts'

describe('ended processes', async () => {
  test('count until they are collected, also if their pid is used again', () => {
    const table = new Map([
      [10, 1],
      [11, 2],
    ])
    const ended = new EndedProcesses(readFrom(table), 100, machine())
    ended.add([10, 11, 12]) // 12 is collected already
    assert.equal(ended.count(100), 2)
    table.delete(10)
    table.set(11, 99) // another process
    ended.collect(100)
    assert.equal(ended.count(100), 0)
  })

  test('are looked at in turns: those that stay do not hide those that go', () => {
    const table = new Map(Array.from({ length: 10 }, (_, i) => [i, i]))
    const ended = new EndedProcesses(readFrom(table), 100, machine())
    ended.add(table.keys())
    for (let i = 3; i < 10; i += 1) table.delete(i) // 0, 1 and 2 stay
    for (let round = 0; round < 4; round += 1) ended.collect(3)
    assert.equal(ended.count(100), 3)
  })

  test('are counted up to a maximum, and collected ones make room', () => {
    const table = new Map(Array.from({ length: 10 }, (_, i) => [i, i]))
    const ended = new EndedProcesses(readFrom(table), 4, machine())
    ended.add(table.keys())
    assert.equal(ended.count(100), 4)
    table.delete(0)
    table.delete(1)
    ended.add([7, 8, 9])
    assert.equal(ended.count(100), 4)
  })

  test('are counted up to the limit of the box until they are looked at, and all where PID 1 collects nothing', () => {
    const table = new Map(Array.from({ length: 500 }, (_, i) => [i, i]))
    const ended = new EndedProcesses(readFrom(table), 1_000, machine())
    ended.add(table.keys()) // a command with 500 processes was killed
    assert.deepEqual([ended.count(40), ended.count(200)], [64, 200])
    ended.collect(300)
    assert.equal(ended.count(200), 500)
  })

  test('do not add up where PID 1 collects them late: it may do so at any moment, and a fork bomb takes their places', () => {
    const table = new Map([[1, 1]])
    const all = machine()
    const other = new EndedProcesses(readFrom(table), 1_000, all) // another box of the same machine
    other.add([1])
    table.delete(1)
    other.collect(100)
    const ended = new EndedProcesses(readFrom(table), 1_000, all)
    for (let bomb = 0; bomb < 5; bomb += 1) {
      const pids = Array.from({ length: 40 }, (_, i) => 100 + bomb * 40 + i)
      for (const pid of pids) table.set(pid, pid)
      ended.add(pids)
      ended.collect(256)
      ended.collect(256)
    }
    assert.deepEqual([ended.count(40), ended.count(150)], [64, 150])
    for (let seconds = 0; seconds < 10 * 4; seconds += 1) ended.collect(256)
    assert.equal(ended.count(40), 200) // these stay
  })
})

/** From start times by pid. */
const readFrom =
  (table: ReadonlyMap<number, number>) =>
  (pid: number): Uncollected | undefined => {
    const startTime = table.get(pid)
    return startTime === undefined ? undefined : { startTime, isAdopted: true }
  }

const machine = (): { hasCollected: boolean } => ({ hasCollected: false })
