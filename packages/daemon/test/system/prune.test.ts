import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionList } from '@breakfall/wire'
import { eventually } from '../../../../test/kit/wait.ts'
import type { LiveConfig, RetentionConfig } from '../../../engine/src/options.ts'
import type { Api } from '../support/api.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const oneTool = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] }, { text: 'done' })

async function ended(api: Api, create: object = {}): Promise<string> {
  const { id } = await api.session(create)
  await api.ended(id, await api.prompt(id, 'go', {}, { 'idempotency-key': 'k' }))
  return id
}

const ids = async (api: Api): Promise<readonly string[]> =>
  (await api.call<SessionList>('GET', '/v1/sessions')).json.sessions.map(({ id }) => id).toSorted()

test('prune deletes the longest idle sessions that have ended with their boxes, and nothing that is unfinished', async (t) => {
  const runner = await testRunner(t)
  const held = Promise.withResolvers<void>()
  const script = inOrder({ text: 'done' })
  const { api } = await rig(
    t,
    (asked, n) =>
      JSON.stringify(asked.messages).includes('wait')
        ? { text: 'late', until: held.promise }
        : (n % 2 === 1 ? oneTool : script)(asked, n),
    { runner: runner.config },
  )
  const [first, second, third] = [await ended(api), await ended(api), await ended(api)]
  const busy = await api.session()
  const waiting = await api.prompt(busy.id, 'wait')
  const unused = await api.session()
  const prune = async (body: object): Promise<unknown> => (await api.call('POST', '/v1/prune', body)).json
  const dry = (await prune({ keep: 1, dryRun: true })) as { sessions: number; bytes: number }
  assert.equal(dry.sessions, 2, 'three have ended')
  assert.ok(dry.bytes > 500)
  assert.deepEqual(await prune({ olderThanMs: 3_600_000 }), { sessions: 0, bytes: 0 })
  assert.equal((await ids(api)).length, 5)
  await prune({ keep: 2 })
  assert.deepEqual(await ids(api), [second, third, busy.id, unused.id].toSorted())
  assert.equal((await api.call('GET', `/v1/sessions/${first}`)).status, 404)
  assert.equal((await api.call('DELETE', `/v1/sessions/${busy.id}?ifEnded=1`)).status, 409)
  assert.equal(((await prune({ olderThanMs: 0 })) as { sessions: number }).sessions, 2)
  assert.deepEqual(await ids(api), [busy.id, unused.id].toSorted())
  assert.equal((await api.call('POST', '/v1/prune', { older: 1 })).status, 400)
  held.resolve()
  await api.ended(busy.id, waiting)
  assert.deepEqual(readdirSync(join(runner.folder, 'state', 'boxes', 'default')), [])
})

test('retention keeps the number of sessions small while sessions are made, and the disk and the boxes with it', async (t) => {
  const workspace = tempFolder(t)
  const runner = await testRunner(t, { allowWorkspace: [workspace], boxesMax: 16 })
  const options = { runner: runner.config, policy: { boxIdleMs: 0 }, retention: { sessionsMax: 8 } }
  const { api, stateDir } = await rig(t, oneTool, { ...options, limits: { retentionMs: 50 } })
  for (let round = 0; round < 3; round++)
    await Promise.all(Array.from({ length: 8 }, () => ended(api, { box: { workspace } })))
  while ((await ids(api)).length > 8) await sleep(20)
  assert.equal((await ids(api)).length, 8)
  while (readdirSync(join(runner.folder, 'state', 'boxes', 'default')).length > 0) await sleep(20)
  assert.deepEqual(
    readdirSync(stateDir).filter((name) => name.startsWith('boxes-left')),
    [],
  )
})

test('retention follows the configuration: a limit that is set while the daemon runs deletes', async (t) => {
  const config: { retention?: RetentionConfig } = {}
  const scripted = await startScriptedModel(() => ({ text: 'done' }))
  atEnd(t, () => scripted.close())
  const model = { baseUrl: scripted.baseUrl, name: 'scripted' }
  const reload = (): LiveConfig => ({ model, runner: {}, ...config })
  const { api } = await rig(t, () => ({}), { model, reload, limits: { retentionMs: 20 } })
  const made = [await ended(api), await ended(api), await ended(api)]
  assert.deepEqual(await ids(api), made.toSorted())
  config.retention = { sessionsMax: 1 }
  await eventually('the oldest are deleted', async () => (await ids(api)).length < 2)
  assert.deepEqual(await ids(api), made.slice(2))
})

test('a clock that is turned forward deletes nothing while the daemon lives; the next one goes by it', async (t) => {
  const scripted = await startScriptedModel(() => ({ text: 'done' }))
  atEnd(t, () => scripted.close())
  const model = { baseUrl: scripted.baseUrl, name: 'scripted' }
  let [passes, aheadMs] = [0, 0]
  const reload = (): LiveConfig => ((passes += 1), { model, runner: {}, retention: { sessionDays: 30 } })
  const options = { model, reload, limits: { retentionMs: 20 }, now: () => Date.now() + aheadMs }
  const first = await rig(t, () => ({}), options)
  const made = await ended(first.api)
  aheadMs = 365 * 24 * 3_600_000
  const before = passes
  await eventually('retention has looked at the clock', () => Promise.resolve(passes > before + 3))
  assert.deepEqual(await ids(first.api), [made])
  const second = await first.restart(options)
  await eventually('it is old for the next daemon', async () => (await ids(second.api)).length === 0)
})
