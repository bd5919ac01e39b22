import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRunnerClient, type RunnerClient } from '@breakfall/runner/client'
import type { Session } from '@breakfall/wire'
import { loadTokens } from '@breakfall/wire/node'
import type { DaemonOptions } from '../../src/index.ts'
import type { Answer, Api } from '../support/api.ts'
import { type DaemonProcess, spawnDaemon } from '../support/daemon-process.ts'
import { ofType } from '../../../engine/test/support/events.ts'
import { type TestRunner, testRunner } from '../support/runner.ts'
import { inOrder, type ScriptedAnswer } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor, rig } from '../support/setup.ts'

const bash = (command: string): ScriptedAnswer => ({ calls: [{ tool: 'bash', arguments: { command } }] })
const append = inOrder(bash('echo line >> ledger; wc -l < ledger'), { text: 'done' })

function clientOf(t: TestContext, { url, config: { tokenFile = '' } }: TestRunner): RunnerClient {
  const client = createRunnerClient({ url, token: loadTokens(tokenFile)[0]?.token ?? '' })
  atEnd(t, () => client.close())
  return client
}

const states = async (client: RunnerClient): Promise<readonly string[]> =>
  (await client.listBoxes()).map(({ state }) => state)

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10)
}

/** One turn; returns what its command printed. */
async function turn(api: Api, sessionId: string): Promise<string> {
  const events = await api.ended(sessionId, await api.prompt(sessionId, 'go'))
  assert.equal(events.at(-1)?.type, 'turn-end', JSON.stringify(events.at(-1)))
  return ofType(events, 'tool-result').at(-1)?.text ?? ''
}

test('an idle host-folder box is removed and made again; a private one is stopped and keeps its files', async (t) => {
  const workspace = tempFolder(t)
  const runner = await testRunner(t, { allowWorkspace: [workspace] })
  const client = clientOf(t, runner)
  const { api } = await rig(t, append, { runner: runner.config, policy: { boxIdleMs: 30 } })
  const host = await api.session({ box: { workspace } })
  const own = await api.session()
  assert.equal(await turn(api, host.id), '1')
  assert.equal(await turn(api, own.id), '1')
  const isReleased = async (): Promise<boolean> => {
    const boxes = await client.listBoxes()
    return boxes.length === 1 && boxes[0]?.id === own.id && boxes[0].state === 'stopped'
  }
  await until(isReleased)
  assert.equal(await turn(api, host.id), '2')
  assert.equal(await turn(api, own.id), '2')
  await until(isReleased)
  assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'line\nline\n')
})

test('a turn in progress keeps its box, and so does an exec of somebody else', async (t) => {
  const runner = await testRunner(t)
  const client = clientOf(t, runner)
  const release = Promise.withResolvers<void>()
  const script = inOrder(bash('echo one'), { text: 'done', until: release.promise })
  const { api } = await rig(t, script, { runner: runner.config, policy: { boxIdleMs: 0 } })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-result')
  const tryToRelease = (): Promise<Answer> => api.call('POST', `/v1/sessions/${id}/release`, {})
  assert.deepEqual((await tryToRelease()).json, { released: false })
  assert.deepEqual(await states(client), ['running'])
  const { execId } = await client.startExec(id, { command: ['sleep', '60'] })
  release.resolve()
  await api.ended(id, turnId)
  assert.deepEqual((await tryToRelease()).json, { released: false })
  assert.deepEqual(await states(client), ['running'])
  await client.killExec(id, execId)
  assert.deepEqual((await tryToRelease()).json, { released: true })
  assert.deepEqual(await states(client), ['stopped'])
})

test('a released box with output that the journal has only in part is kept for that output', async (t) => {
  const workspace = tempFolder(t)
  const runner = await testRunner(t, { allowWorkspace: [workspace] })
  const client = clientOf(t, runner)
  const { api } = await rig(t, inOrder(bash('seq 1 200000'), { text: 'done' }), { runner: runner.config })
  const { id } = await api.session({ box: { workspace } })
  await turn(api, id)
  assert.deepEqual((await api.call('POST', `/v1/sessions/${id}/release`, {})).json, { released: true })
  const [exec] = await client.listExecs(id)
  const output = await client.execOutput(id, exec?.execId ?? '', 'stdout')
  assert.ok(output.toString().endsWith('199999\n200000\n'))
  assert.deepEqual(await states(client), ['stopped'])
  await turn(api, id)
  assert.deepEqual(await states(client), ['running'])
})

test('boxes that an earlier daemon left running are released after a restart', async (t) => {
  const workspace = tempFolder(t)
  const runner = await testRunner(t, { allowWorkspace: [workspace] })
  const client = clientOf(t, runner)
  const first = await rig(t, append, { runner: runner.config })
  await turn(first.api, (await first.api.session({ box: { workspace } })).id)
  await turn(first.api, (await first.api.session({ box: { id: 'named' } })).id)
  const foreign = await client.createBox({ id: 'of-somebody-else' })
  const later = await first.restart({ policy: { boxIdleMs: 0 } })
  await later.daemon.findRunner()
  const boxes = async (): Promise<string> =>
    (await client.listBoxes()).map(({ id, state }) => `${id} ${state}`).join(', ')
  await until(async () => (await boxes()) === `named stopped, ${foreign.id} running`)
})

test('more sessions than the quota allows all run, one after another: idle boxes make room', async (t) => {
  const workspace = tempFolder(t)
  const runner = await testRunner(t, { allowWorkspace: [workspace], boxesMax: 2 })
  const client = clientOf(t, runner)
  const { api } = await rig(t, append, { runner: runner.config })
  for (let n = 1; n <= 5; n++) assert.equal(await turn(api, (await api.session({ box: { workspace } })).id), String(n))
  assert.ok((await client.listBoxes()).length <= 2)
})

test('a full quota is refused before the model is asked, and names its setting', async (t) => {
  const runner = await testRunner(t, { boxesMax: 1 })
  const client = clientOf(t, runner)
  const { api, model, daemon } = await rig(t, append, { runner: runner.config })
  const { id } = await api.session()
  await daemon.findRunner()
  await client.createBox({ id: 'of-somebody-else' })
  const { status, json } = await api.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'go' })
  assert.deepEqual([status, json['category']], [429, 'quota_exceeded'], JSON.stringify(json))
  assert.match(String(json['error']), /1 running boxes per prefix.*boxesMax/)
  assert.equal(model.asked.length, 0)
  assert.equal((await api.call<Session>('GET', `/v1/sessions/${id}`)).json.lastSeq, 0, 'nothing was journalled')
  const refused = await api.call('POST', '/v1/sessions', { box: { network: 'host' } })
  assert.deepEqual([refused.status, refused.json['category']], [429, 'quota_exceeded'])
  await client.removeBox('of-somebody-else')
  assert.equal(await turn(api, id), '1')
})

test('kill -9 between any two steps of a release leaks no box and loses no file', { timeout: 120_000 }, async (t) => {
  const { options, workspace, stateDir } = await optionsFor(t, append)
  const spawned = async (given: Partial<DaemonOptions>): Promise<DaemonProcess> => {
    const daemon = await spawnDaemon(given)
    atEnd(t, () => daemon.kill('SIGKILL'))
    return daemon
  }
  const crashing = { ...options, policy: { backoffMs: 1, boxIdleMs: 0 } }
  const first = await spawned(options)
  const host = await first.api.session({ box: { workspace } })
  const own = await first.api.session()
  const both = async ({ api }: DaemonProcess, lines: number, at: string): Promise<void> => {
    assert.equal(await turn(api, host.id), String(lines), at)
    assert.equal(await turn(api, own.id), String(lines), at)
  }
  await both(first, 1, 'at first')
  first.kill('SIGKILL')
  await first.ended
  for (const [index, point] of ['before:release', 'after:release-stored', 'after:release'].entries()) {
    // It has no turn to recover. It finds the runner, releases the boxes there, and dies in the middle of it.
    const doomed = await spawned(crashing)
    await doomed.arm(point)
    void doomed.api.call('POST', '/v1/sessions', { box: { network: 'none' } }).catch(() => undefined)
    assert.equal(await doomed.ended, 'SIGKILL', point)
    const after = await spawned(options)
    await both(after, index + 2, point)
    after.kill('SIGKILL')
    await after.ended
  }
  const last = await spawned(crashing)
  await last.api.call('POST', '/v1/sessions', { box: { network: 'none' } })
  const file = (id: string): string => join(stateDir, 'runner', 'boxes', 'default', id, 'box.json')
  await until(() => Promise.resolve(!existsSync(file(host.id))))
  await until(() => Promise.resolve(readFileSync(file(own.id), 'utf8').includes('"state":"stopped"')))
})
