/** Turns whose model server is away and comes back: they wait for it with patience and do not park. The time is a minute, divided by 100. */
import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { API_NAMES } from '@breakfall/model'
import { ANSWER, MOMENTS, startAwayModel } from '../../../model/test/away-model.ts'
import { assembled, assertNoGap, types } from '../support/api.ts'
import { rig } from '../support/setup.ts'

for (const [n, moment] of MOMENTS.entries()) {
  const api = API_NAMES[n % API_NAMES.length] ?? 'openai-chat' // the model client's tests have every pair
  test(`a turn whose model server is away for a minute, ${moment}, ${api}, is exact and never parks`, async (t) => {
    const away = await startAwayModel({ api, moment, awayMs: 600, isStream: true })
    atEnd(t, () => away[Symbol.asyncDispose]())
    const { api: daemon } = await rig(t, () => ({}), {
      model: { baseUrl: away.url, name: 'm', api },
      policy: { patienceMs: 10_000, backoffMs: 5 },
    })
    const { id } = await daemon.session()
    const events = await daemon.ended(id, await daemon.prompt(id, 'go'))
    assertNoGap(events)
    assert.deepEqual([...assembled(events).values()], [ANSWER])
    assert.deepEqual([events.at(-1)?.type, types(events).includes('parked')], ['turn-end', false])
  })
}

test('when patience is spent the turn parks, and it ends exactly once the server is back', async (t) => {
  const away = await startAwayModel({
    api: 'openai-chat',
    moment: 'before content',
    awayMs: 6_000, // longer than a daemon takes to start on a busy machine
    isStream: true,
  })
  atEnd(t, () => away[Symbol.asyncDispose]())
  const { api } = await rig(t, () => ({}), {
    model: { baseUrl: away.url, name: 'm' },
    policy: { patienceMs: 200, backoffMs: 5 },
  })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const parked = events.find((event) => event.type === 'parked')
  assert.equal(parked?.fault.category, 'model_unreachable')
  assert.deepEqual([...assembled(events).values()], [ANSWER])
})
