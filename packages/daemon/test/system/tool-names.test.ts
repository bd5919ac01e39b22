import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DaemonClient } from '@breakfall/client'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { ofType } from '../../../engine/test/support/events.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

test('a tool that is named like a member of every object does not exist, and the turn goes on', LIMIT, async (t) => {
  const names = Object.getOwnPropertyNames(Object.prototype)
  const script = inOrder({ calls: names.map((tool) => ({ id: tool, tool, arguments: {} })) }, { text: 'done' })
  const runner = await testRunner(t)
  const { api, daemon } = await rig(t, script, { runner: runner.config })
  const { id } = await api.session({})
  const turnId = await api.prompt(id, 'go')
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  const results = ofType(events, 'tool-result')
  assert.equal(results.length, names.length)
  for (const { outcome, text } of results) assert.match(`${outcome}: ${text}`, /^failed: There is no tool/)
  const client = new DaemonClient({ url: daemon.url, token: daemon.token })
  const { tools = {} } = await client.turn(turnId)
  assert.equal(tools['constructor'], 1)
  const refused = await api.call('POST', '/v1/sessions', { tools: ['constructor'] })
  assert.equal(refused.status, 400)
  const provider = { name: 'constructor', baseUrl: 'http://127.0.0.1:9/v1' }
  const inline = await api.call('POST', '/v1/sessions', { model: 'm', provider })
  assert.equal(inline.status, 201, JSON.stringify(inline.json))
})
