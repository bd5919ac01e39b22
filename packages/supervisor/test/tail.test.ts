import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { makeRedactor } from '../src/redactor.ts'
import { Tail } from '../src/tail.ts'

const asIs = (text: string): string => text
const DROPPED = /lines dropped/

describe('the tail of a stream', () => {
  it('keeps lines in order, even if long lines fill its head early', () => {
    const tail = new Tail()
    const lines = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(20_000))
    for (const text of [...lines, 'last']) tail.push({ text, droppedBytes: 0 })
    assert.equal(
      tail
        .text(asIs)
        .map((line) => line[0])
        .join(''),
      'abcdl',
    )
  })

  it('keeps or counts every byte, including those cut from a long line', () => {
    for (const [count, length] of [
      [300, 5_000],
      [200, 1_536],
      [500, 1_600],
      [3, 20_000],
    ] as const) {
      const tail = new Tail()
      for (let line = 0; line < count; line += 1) tail.push({ text: 'é'.repeat(length / 2), droppedBytes: 0 })
      const lines = tail.text(asIs).filter((line) => !DROPPED.test(line))
      const kept = lines.reduce((sum, line) => sum + Buffer.byteLength(line.replace(' … ', '')), 0)
      assert.equal(kept + tail.droppedBytes, count * length)
    }
  })

  it('leaves no half of a key when it cuts a long line', () => {
    const key = 'an-unusual-key-without-a-known-shape'
    const redactor = makeRedactor({ given: { API_KEY: key } })
    for (let before = 1_150; before < 1_300; before += 1) {
      const tail = new Tail()
      for (let line = 0; line < 32; line += 1) tail.push({ text: 'first', droppedBytes: 0 })
      const text = `${'x '.repeat(before / 2)}${'-'.repeat(before % 2)} ${key} ${'y '.repeat(500)} ${key} ${'z '.repeat(140)}`
      tail.push({ text, droppedBytes: 0 })
      const said = tail.text(redactor).at(-1) ?? ''
      assert.match(said, / … /)
      for (const piece of [key.slice(0, 6), key.slice(-6)]) assert.ok(!said.includes(piece), `${before}: ${said}`)
    }
  })
})
