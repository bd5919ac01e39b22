import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assembled, assertNoGap, types } from '../support/api.ts'
import { inOrder } from '../support/scripted-model.ts'
import { rig } from '../support/setup.ts'

test('a prompt runs through the model, a tool in the real runner and back to its end', async (t) => {
  const script = inOrder(
    { text: 'Let me look.', calls: [{ id: 'c1', tool: 'bash', arguments: { command: 'echo hello; echo oops >&2' } }] },
    { text: 'It said hello.' },
  )
  const { api, model } = await rig(t, script)
  const session = await api.session()
  const turnId = await api.prompt(session.id, 'say hello')
  const events = await api.ended(session.id, turnId)
  assertNoGap(events)
  assert.deepEqual(
    [...new Set(types(events))],
    ['turn-start', 'step-start', 'text-delta', 'tool-draft', 'tool-call', 'tool-output', 'tool-result', 'turn-end'],
  )
  const result = events.find((event) => event.type === 'tool-result')
  assert.equal(result?.outcome, 'ok')
  assert.match(result?.text ?? '', /hello/)
  assert.deepEqual([...assembled(events).values()], ['Let me look.', 'It said hello.'])
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.deepEqual([end.text, end.steps, end.faultsSurvived], ['It said hello.', 2, 0])
  assert.deepEqual(end.usage.inputTokens, { value: 20, quality: 'known' })
  const told = model.asked[1]?.messages.at(-1)
  assert.deepEqual([told?.role, told?.tool_call_id], ['tool', 'c1'])
  const turn = await api.turn(turnId)
  assert.deepEqual([turn.state, turn.result?.text], ['finished', 'It said hello.'])
})
