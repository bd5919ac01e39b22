import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { closedPort } from '../../../../test/kit/tcp-server.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRunnerClient } from '@breakfall/runner/client'
import type { Session } from '@breakfall/wire'
import { loadTokens } from '@breakfall/wire/node'
import type { Answer } from '../support/api.ts'
import { type TestRunner, testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const oneTool = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] }, { text: 'all done' })

test('a session whose box the runner would refuse is refused with the field, and nothing is created', async (t) => {
  const runner = await testRunner(t)
  const { api } = await rig(t, oneTool, { runner: runner.config })
  const create = (box: object): Promise<Answer> => api.call('POST', '/v1/sessions', { box })
  const missing = join(tempFolder(t), 'not-there')
  for (const [workspace, expected] of [
    ['/etc', 'a folder below one of --allow-workspace'],
    [missing, 'a folder that exists'],
  ] as const) {
    const { status, json } = await create({ workspace })
    assert.deepEqual([status, json['category']], [400, 'invalid_request'], JSON.stringify(json))
    assert.deepEqual(json['errors'], [{ field: 'box.workspace', expected, got: workspace }])
    assert.match(String(json['error']), /box\.workspace must be a folder/)
  }
  const tooMuch = await create({ limits: { cpus: 256 } })
  assert.deepEqual([tooMuch.status, tooMuch.json['category']], [429, 'quota_exceeded'])
  assert.deepEqual((await api.call<{ sessions: Session[] }>('GET', '/v1/sessions')).json.sessions, [])
  assert.equal((await create({ network: 'host' })).status, 201)
})

test('a hanging runner delays no new session: the first tool call reports what it would have refused', async (t) => {
  const hanging = createServer(() => undefined).listen(0, '127.0.0.1') // accepts connections and never answers
  await once(hanging, 'listening')
  atEnd(t, () => {
    hanging.closeAllConnections()
    hanging.close()
  })
  const runner = await testRunner(t)
  let url = `http://127.0.0.1:${(hanging.address() as AddressInfo).port}`
  const { tokenFile } = runner.config
  const model = { baseUrl: '', name: 'scripted' }
  const { api, model: scripted } = await rig(t, oneTool, {
    limits: { checkMs: 20 },
    reload: () => ({ model, runner: { url, tokenFile } }),
  })
  model.baseUrl = scripted.baseUrl
  const from = performance.now()
  const { id } = await api.session({ box: { workspace: '/etc' } })
  const ms = Math.round(performance.now() - from)
  assert.ok(ms < 4_000, `the session was made after ${ms} ms`)
  url = runner.url
  hanging.closeAllConnections()
  const end = (await api.ended(id, await api.prompt(id, 'go'))).at(-1)
  assert.ok(end?.type === 'turn-error' && end.category === 'invalid_request', JSON.stringify(end))
})

test('a first session waits for its starting runner longer than for a silent one', async (t) => {
  const { api } = await rig(t, oneTool, { limits: { checkMs: 500 } }) // starting a runner takes longer
  const { status, json } = await api.call('POST', '/v1/sessions', { box: { workspace: '/not/there' } })
  assert.deepEqual([status, json['category']], [400, 'invalid_request'], JSON.stringify(json))
})

test('a box that proves impossible at the first tool call ends the turn with that cause, not with an answer', async (t) => {
  const port = await closedPort()
  const first = await testRunner(t)
  await first.stop()
  const config = { url: `http://127.0.0.1:${port}`, tokenFile: first.config.tokenFile }
  const { api, model } = await rig(t, oneTool, { runner: config })
  const { id } = await api.session({ box: { workspace: '/etc' } })
  await first.again(port)
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error', JSON.stringify(end))
  assert.deepEqual([end.category, end.stopped, end.sideEffects], ['invalid_request', 'not_retryable', 'none'])
  assert.match(end.error, /\/etc\. The box of this session cannot be created/)
  assert.equal(model.asked.length, 1, 'the model was not asked to continue without its tools')
  const result = events.find((event) => event.type === 'tool-result')
  assert.ok(result?.outcome === 'failed' && result.text.startsWith('This was not run'), JSON.stringify(result))
  assert.equal((await api.call<Session>('GET', `/v1/sessions/${id}`)).json.state, 'idle')
})

test('a box whose creation was never recorded is removed with its session', async (t) => {
  const runner = await testRunner(t)
  const { api, daemon } = await rig(t, oneTool, { runner: runner.config })
  const { id } = await api.session()
  const client = clientOf(runner)
  const { loader } = daemon.sessions
  await loader.use(id, (session) => session.setData({ runnerId: runner.runnerId }))
  await client.createBox({ id }) // here the daemon was killed
  assert.equal((await api.call('DELETE', `/v1/sessions/${id}`)).status, 204)
  assert.deepEqual(await client.listBoxes(), [])
  await client.close()
})

test('the box of a session deleted while its runner is away is removed when that runner is back', async (t) => {
  const runner = await testRunner(t)
  const first = await rig(t, oneTool, { runner: runner.config, limits: { killMsMax: 300 } })
  const { api } = first
  const { id } = await api.session()
  await api.ended(id, await api.prompt(id, 'go'))
  const { id: other } = await api.session()
  await api.ended(other, await api.prompt(other, 'go'))
  await runner.stop()
  assert.equal((await api.call('DELETE', `/v1/sessions/${id}`)).status, 204)
  assert.equal((await api.call('GET', `/v1/sessions/${id}`)).status, 404)
  const later = await first.restart()
  const client = clientOf(await runner.again(runner.port))
  assert.equal((await client.listBoxes()).length, 2)
  await later.daemon.findRunner()
  for (let boxes = 2; boxes > 1; boxes = (await client.listBoxes()).length) await sleep(20)
  assert.deepEqual(
    (await client.listBoxes()).map((box) => box.id),
    [other],
  )
  await client.close()
})

const clientOf = ({ url, config: { tokenFile = '' } }: TestRunner) =>
  createRunnerClient({ url, token: loadTokens(tokenFile)[0]?.token ?? '' })
