/** A turn's budget: progress earns it back, and a turn without progress still ends. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { types } from '../support/api.ts'
import type { Script } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const STEPS = 12

/** Each step's first answer breaks off; the second is a tool call, and the last step is a text. */
const everyStepTwice: Script = ({ messages }, request) => {
  if (request % 2 === 1) return { text: 'this answer breaks off', pieceChars: 4, pauseMs: 5, cutAfter: 2 }
  const done = messages.filter(({ role }) => role === 'assistant').length
  return done === STEPS ? { text: 'done' } : { calls: [{ tool: 'read', arguments: { path: 'missing.txt' } }] }
}

test('a turn whose every step needs two attempts never parks, however small its budget of failures is', async (t) => {
  const { api } = await rig(t, everyStepTwice, { policy: { failuresMax: 4, backoffMs: 1 } })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.equal(types(events).filter((type) => type === 'retry').length, STEPS + 1)
  assert.equal(types(events).includes('parked'), false)
})

test('a turn without progress ends when its failures are spent', async (t) => {
  const script: Script = () => ({ text: 'this answer breaks off', pieceChars: 4, pauseMs: 5, cutAfter: 2 })
  const { api } = await rig(t, script, {
    policy: { failuresMax: 4, attemptsMax: 100, backoffMs: 1, park: 'never' },
  })
  const { id } = await api.session()
  const end = (await api.ended(id, await api.prompt(id, 'go'))).at(-1)
  assert.ok(end?.type === 'turn-error')
  assert.equal(end.stopped, 'failures_spent')
})
