/** A person may end the wait before a retry; nothing else shortens it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SessionEvent } from '@breakfall/wire'
import { closedPort } from '../../../test/kit/tcp-server.ts'
import { type Api, assertNoGap, types } from './support/api.ts'
import { inOrder } from '../../engine/test/support/scripted-model.ts'
import { rig } from './support/setup.ts'

const resume = async (api: Api, turnId: string): Promise<readonly [number, unknown]> => {
  const { status, json } = await api.call('POST', `/v1/turns/${turnId}/resume`, {})
  return [status, json['category'] ?? json['state']]
}

const isRetry = (event: SessionEvent): boolean => event.type === 'retry'

test('resume ends the wait that a provider asked for, once, and keeps the count of attempts', async (t) => {
  const release = Promise.withResolvers<void>()
  const { api, model } = await rig(t, (_, n) =>
    n === 1 ? { status: 429, headers: { 'retry-after': '45' } } : { text: 'thanks', until: release.promise },
  )
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'hi')
  const [retry] = (await api.events(id, isRetry)).filter((event) => event.type === 'retry')
  assert.ok(retry !== undefined && retry.delayMs > 40_000, 'the wait is the one that the provider asked for')
  assert.equal((await api.turn(turnId)).state, 'retrying')
  await api.prompt(id, 'another', { queue: true }) // wakes the session, and must not shorten the wait
  assert.equal(model.asked.length, 1)
  const clicks = await Promise.all([resume(api, turnId), resume(api, turnId)])
  assert.deepEqual(
    clicks.map(([status]) => status).toSorted((a, b) => a - b),
    [202, 409],
  )
  release.resolve()
  const events = await api.ended(id, turnId)
  assertNoGap(events)
  const resumed = events.filter((event) => event.type === 'resumed')
  assert.deepEqual(
    resumed.map(({ because }) => because),
    ['person'],
  )
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.deepEqual([end.text, end.faultsSurvived], ['thanks', 1])
  assert.equal((await api.turn(turnId)).attempts, 2)
  assert.deepEqual(await resume(api, turnId), [409, 'turn_not_parked'])
})

test('resume ends the wait before the next look for a runner, and names the call that needs it', async (t) => {
  const script = inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command: 'true' } }] }, { text: 'done' })
  const port = await closedPort()
  const { api } = await rig(t, script, { runner: { url: `http://127.0.0.1:${port}` }, dice: () => 0.9 })
  const { id } = await api.session({ policy: { backoffMs: 60_000 } })
  const turnId = await api.prompt(id, 'go')
  const seen = await api.events(id, (event) => event.type === 'retry' && event.delayMs > 20_000)
  const waiting = seen.at(-1)
  assert.ok(waiting?.type === 'retry')
  assert.deepEqual([waiting.action, waiting.callId], ['resolve', 'c1'])
  assert.equal((await resume(api, turnId))[0], 202)
  const next = await api.events(id, isRetry, waiting.seq)
  assert.deepEqual(types(next), ['resumed', 'retry'])
  assert.ok((next.at(-1)?.at ?? '') < waiting.nextAt, 'it looked before its time')
  await api.call('POST', `/v1/turns/${turnId}/cancel`, {})
  assert.equal((await api.ended(id, turnId)).at(-1)?.type, 'turn-error')
})
