/** Every attempt that reached a model counts in the usage of its turn, its cost and the metrics, also the last one. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { blockStart, blockStop, event, messageStart, textFrames } from '../../../../test/kit/anthropic-frames.ts'
import { atEnd } from '../../../../test/kit/folder.ts'
import { type Script, startModelServer } from '../../../../test/kit/model-server.ts'
import { head, lastChunk, type Play, reset, silence } from '../../../../test/kit/plays.ts'
import type { Api } from '../support/api.ts'
import { ofType } from '../../../engine/test/support/events.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const PRICES = { priceIn: 1_000_000, priceOut: 1_000_000 } // a token costs 1, to make sums readable

async function daemonAt(t: TestContext, script: Script, policy: object) {
  const server = await startModelServer(script)
  atEnd(t, () => server.close())
  const model = { baseUrl: server.url, name: 'claude', api: 'anthropic-messages', ...PRICES } as const
  const { api } = await rig(t, inOrder({ text: 'unused' }), { model, policy: { backoffMs: 1, ...policy } })
  return { api, server }
}

const tokensIn = async (api: Api): Promise<string[]> => {
  const response = await fetch(`${api.url}/metrics`, { headers: { authorization: `Bearer ${api.token}` } })
  return (await response.text()).split('\n').filter((line) => line.startsWith('breakfall_tokens_total{'))
}

/** 12 tokens in, 7 out, and arguments that are no object. */
const badCall: Play = [
  head(),
  messageStart,
  blockStart(0, { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} }),
  event('content_block_delta', { index: 0, delta: { type: 'input_json_delta', partial_json: '{"pa' } }),
  blockStop(0),
  event('message_delta', { delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 7 } }),
  event('message_stop'),
  lastChunk,
]

test('the attempt that ends a turn is in its usage, its cost and the metrics', async (t) => {
  const { api, server } = await daemonAt(t, [badCall], { attemptsMax: 3 })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'read it')
  const [end] = ofType(await api.ended(id, turnId), 'turn-error')
  assert.equal(end?.category, 'tool_call_truncated')
  assert.equal(server.requests.length, 3)
  const used = {
    inputTokens: { value: 36, quality: 'known' },
    outputTokens: { value: 21, quality: 'known' },
  }
  const cost = { value: 57, currency: 'USD', quality: 'known' }
  const turn = await api.turn(turnId)
  assert.deepEqual([turn.usage, turn.cost], [used, cost])
  assert.deepEqual([end?.usage, end?.cost], [used, cost])
  assert.equal(turn.fault !== null && 'usage' in turn.fault, false)
  assert.deepEqual(await tokensIn(api), [
    'breakfall_tokens_total{direction="input",quality="known"} 36',
    'breakfall_tokens_total{direction="output",quality="known"} 21',
  ])
})

test('the attempt that parks a turn is in its usage, once, and stays in it after the turn resumed', async (t) => {
  const broken: Play = [head(), messageStart, ...textFrames(0, 'a few words').slice(0, 2), reset]
  const whole: Play = [
    head(),
    messageStart,
    ...textFrames(0, 'done'),
    event('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 7 } }),
    event('message_stop'),
    lastChunk,
  ]
  const { api } = await daemonAt(t, [broken, broken, whole], { attemptsMax: 2 })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'read it')
  const [parked] = ofType(await api.events(id, ({ type }) => type === 'parked'), 'parked')
  assert.equal(parked?.usage?.inputTokens.value, 12)
  assert.equal((await api.turn(turnId)).usage.inputTokens.value, 24)
  await api.call('POST', `/v1/turns/${turnId}/resume`, {})
  await api.ended(id, turnId)
  assert.equal((await api.turn(turnId)).usage.inputTokens.value, 36)
})

test('the attempt that a cancel stops is in the usage of its turn, and its output is an estimate', async (t) => {
  const { api } = await daemonAt(t, [[head(), messageStart, ...textFrames(0, 'a few words').slice(0, 2), silence]], {})
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'read it')
  await api.events(id, ({ type }) => type === 'text-delta')
  await api.call('POST', `/v1/turns/${turnId}/cancel`, {})
  await api.ended(id, turnId)
  const { usage, state } = await api.turn(turnId)
  assert.equal(state, 'cancelled')
  assert.deepEqual(usage.inputTokens, { value: 12, quality: 'known' })
  assert.deepEqual(usage.outputTokens, { value: 3, quality: 'estimated' }) // the server counted 1 before it began
})
