/** Providers and keys through the API: what a session uses, what changes for its next turn, and what wakes a turn that lacks a key. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Session } from '@breakfall/wire'
import { atEnd } from '../../../../test/kit/folder.ts'
import { eventually, LIMIT } from '../../../../test/kit/wait.ts'
import type { LiveConfig } from '@breakfall/engine'
import { ofType } from '../../../engine/test/support/events.ts'
import { type Script, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const GOOD = 'sk-good-5e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b'
const BAD = 'sk-bad-9b8c7d6e5f4a3b2c1d0e9f8a7b5e1f0a'
const OTHER = 'sk-other-0e9f8a7b5e1f0a9b8c7d6e5f4a3b2c1d'

/** Answers whoever has the good key. */
const keyed: Script = ({ authorization }) =>
  authorization === `Bearer ${GOOD}` ? { text: 'thank you' } : { status: 401 }

test('a PATCH changes the title at once, and the model and the provider for the next turn', LIMIT, async (t) => {
  const later = Promise.withResolvers<void>()
  const second = await startScriptedModel(() => ({ text: 'from the second' }))
  atEnd(t, () => second.close())
  const { api, model } = await rig(t, () => ({ text: 'from the first', until: later.promise }))
  const { id } = await api.session({ model: 'small' })
  const running = await api.prompt(id, 'one')
  const change = { title: 'A better name', model: 'large', provider: { baseUrl: second.baseUrl, apiKey: OTHER } }
  const { status, json } = await api.call<Session>('PATCH', `/v1/sessions/${id}`, change)
  assert.deepEqual([status, json.title, json.model], [200, 'A better name', 'large'])
  assert.deepEqual(json.provider, { name: 'inline', baseUrl: second.baseUrl, api: 'openai-chat' })
  assert.equal((await api.turn(running)).model, 'small', 'the turn that runs keeps its model')
  later.resolve()
  await api.ended(id, running)
  const next = await api.prompt(id, 'two')
  await api.ended(id, next)
  assert.deepEqual([(await api.turn(running)).model, (await api.turn(next)).model], ['small', 'large'])
  assert.deepEqual(
    [model.asked.map((asked) => asked.model), second.asked.map((asked) => asked.model)],
    [['small'], ['large']],
  )
  assert.equal(second.asked[0]?.authorization, `Bearer ${OTHER}`)
  assert.ok(!JSON.stringify([json, await api.turn(next)]).includes(OTHER))
})

test('a turn without a valid key wakes for its own provider only, whatever else changes', LIMIT, async (t) => {
  const server = await startScriptedModel(keyed)
  atEnd(t, () => server.close())
  let reads = 0
  let config: LiveConfig = {
    model: { baseUrl: server.baseUrl, name: 'any', provider: 'a', apiKey: BAD },
    providers: { b: { baseUrl: 'http://127.0.0.77:9009', apiKey: BAD } },
    runner: {},
  }
  const changed = async (next: LiveConfig): Promise<void> => {
    config = next
    const seen = reads
    await eventually('two more looks at the configuration', () => reads > seen + 2) // looked at, and looked at again
  }
  const { api } = await rig(t, keyed, {
    ...config,
    reload: () => {
      reads += 1
      return config
    },
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, ({ type }) => type === 'parked')
  const stranger = await api.session({ provider: { baseUrl: server.baseUrl, apiKey: GOOD }, model: 'any' })
  await api.ended(stranger.id, await api.prompt(stranger.id, 'with my own key'))
  const b = { baseUrl: 'http://127.0.0.77:9010', apiKey: GOOD }
  await changed({ ...config, providers: { b }, runner: { allowWorkspace: ['/srv'] } })
  assert.equal((await api.turn(turnId)).state, 'parked')
  config = { ...config, model: { ...config.model, apiKey: GOOD } }
  const events = await api.ended(id, turnId)
  assert.deepEqual(
    ofType(events, 'resumed').map(({ because }) => because),
    ['signal'],
  )
  assert.deepEqual(
    ofType(events, 'turn-end').map(({ faultsSurvived }) => faultsSurvived),
    [1],
  )
})

test(
  'a lost key comes back with a resume, for that turn only: the session keeps what was set for its next turn',
  LIMIT,
  async (t) => {
    const own = await startScriptedModel(keyed)
    const next = await startScriptedModel(() => ({ text: 'next' }))
    atEnd(t, () => own.close())
    atEnd(t, () => next.close())
    const first = await rig(t, keyed)
    const { id } = await first.api.session({ provider: { baseUrl: own.baseUrl, apiKey: BAD }, model: 'any' })
    const turnId = await first.api.prompt(id, 'go')
    await first.api.events(id, ({ type }) => type === 'parked')
    const { api } = await first.restart()
    const provider = { baseUrl: next.baseUrl, apiKey: OTHER }
    await api.call('PATCH', `/v1/sessions/${id}`, { model: 'other', provider })
    const resume = `/v1/turns/${turnId}/resume`
    const wrong = await api.call('POST', resume, { provider: { baseUrl: next.baseUrl, apiKey: GOOD } })
    assert.equal(wrong.status, 400)
    assert.match(String(wrong.json['error']), /the turn's own provider, http/)
    assert.ok(!JSON.stringify(wrong.json).includes(GOOD))
    assert.equal((await api.call('POST', resume, { provider: { baseUrl: own.baseUrl, apiKey: GOOD } })).status, 202)
    await api.ended(id, turnId)
    assert.equal(own.asked.at(-1)?.authorization, `Bearer ${GOOD}`)
    assert.equal((await api.call<Session>('GET', `/v1/sessions/${id}`)).json.model, 'other')
    await api.ended(id, await api.prompt(id, 'again'))
    assert.deepEqual(
      next.asked.map(({ model, authorization }) => [model, authorization]),
      [['other', `Bearer ${OTHER}`]],
    )
  },
)

test('a bad provider is a 400 that names the field and never shows the key, nor does the log', LIMIT, async (t) => {
  const log: string[] = []
  const { api } = await rig(t, () => ({ text: 'x' }), {
    logLevel: 'trace',
    logTo: { write: (line) => void log.push(line) },
  })
  const baseUrl = 'http://127.0.0.77:9009'
  for (const [request, field] of [
    [{ provider: { baseUrl, apiKey: '' } }, 'provider.apiKey'],
    [{ provider: { baseUrl, apiKey: `${GOOD}\n` } }, 'provider.apiKey'],
    [{ provider: { baseUrl, apiKey: `${GOOD} ${BAD}` } }, 'provider.apiKey'],
    [{ provider: { baseUrl, apiKey: [GOOD] } }, 'provider.apiKey'],
    [{ provider: { baseUrl: 'ftp://x', apiKey: GOOD } }, 'provider.baseUrl'],
    [{ provider: { apiKey: GOOD } }, 'provider.baseUrl'],
    [{ provider: { baseUrl, apiKey: GOOD, api: 'soap' } }, 'provider.api'],
    [{ provider: { baseUrl, apiKey: GOOD, nonsense: 1 } }, 'provider.nonsense'],
    [{ provider: GOOD }, 'provider'],
    [{ model: '/' }, 'model'],
    [{ model: 'a/' }, 'model'],
    [{ title: 7 }, 'title'],
  ] as const) {
    const { status, json } = await api.call('POST', '/v1/sessions', request)
    const said = JSON.stringify(json)
    assert.equal(status, 400, said)
    assert.equal((json['errors'] as { field: string }[])[0]?.field, field, said)
    assert.ok(!said.includes(GOOD) && !said.includes('Invalid input'), said)
  }
  assert.ok(!log.join('').includes(GOOD))
})
