/** Which columns a trial has. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { columnsOf } from '../src/commands/trial/cell.ts'

test('a trial has a column behind the gateway if asked for one, or for what it holds back', () => {
  const columns = (options: Parameters<typeof columnsOf>[0]) => columnsOf(options).map(({ name, hold }) => [name, hold])
  assert.deepEqual(columns({}), [['direct', undefined]])
  const gateway = ['gateway', undefined]
  assert.deepEqual(columns({ throughGateway: true }), [['direct', undefined], gateway])
  for (const throughGateway of [true, false])
    assert.deepEqual(columns({ throughGateway, hold: ['answer', 'tools'] }), [
      ['direct', undefined],
      ['gateway', 'answer'],
      ['gateway, hold tools', 'tools'],
    ])
})
