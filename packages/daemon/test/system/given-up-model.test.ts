/** Turns at a model server that keeps crashing: they wait for it, and giving up is not forever. Real children. */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import { wholeLines } from '../../../../test/kit/whole-lines.ts'
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { SessionEvent } from '@breakfall/wire'
import type { DaemonOptions } from '../../src/index.ts'
import type { ModelConfig } from '@breakfall/engine'
import { startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { commandFor, QUICK_SERVER } from '../support/served.ts'
import { rig } from '../support/setup.ts'

const FAILURES_MAX = 2

async function served(
  t: TestContext,
  behaviours: (folder: string) => readonly string[],
  more: { readonly model?: Partial<ModelConfig>; readonly limits?: DaemonOptions['limits'] } = {},
) {
  const folder = tempFolder(t)
  const log = join(folder, 'boots')
  const model = (...list: readonly string[]): ModelConfig => ({
    baseUrl: '',
    name: 'local',
    serve: { command: commandFor(log, ...list) },
    ...more.model,
  })
  let current = model(...behaviours(folder))
  const { api } = await rig(t, () => ({}), {
    model: current,
    reload: () => ({ model: current, runner: {} }),
    policy: { backoffMs: 1 },
    limits: { ...more.limits },
    modelServer: { ...QUICK_SERVER, limits: { ...QUICK_SERVER.limits, failuresMax: FAILURES_MAX } },
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = async (): Promise<Extract<SessionEvent, { type: 'parked' }>> => {
    const event = (await api.events(id, ({ type }) => type === 'parked')).at(-1)
    assert.ok(event?.type === 'parked')
    return event
  }
  const finished = async (): Promise<readonly SessionEvent[]> => {
    const events = await api.ended(id, turnId)
    const end = events.at(-1)
    assert.ok(end?.type === 'turn-end', JSON.stringify(end))
    assert.equal(end.text, 'whole at last')
    return events
  }
  return {
    api,
    folder,
    turnId,
    parked,
    finished,
    boots: () => wholeLines(log).length,
    configure: (...list: readonly string[]) => {
      current = model(...list)
    },
  }
}

const NEVER_LOADS = Array.from({ length: 99 }, () => 'dies-while-loading')
/** No probe starts it again before the test is over: its first one comes twelve of these later. */
const NO_SLOW_PROBE = { probeMsFirst: 3_000 }

test('a missing model file parks the turn after one start, and the file wakes it when it is there', async (t) => {
  const weights = (folder: string): string => join(folder, 'weights.gguf')
  const missing = (inside: string): readonly string[] => ['--model', weights(inside)]
  const { folder, parked, finished } = await served(t, missing, { limits: { probeMsFirst: 1_000 } })
  const { fault, resumeAt } = await parked()
  assert.deepEqual([fault.category, fault.next, fault.phase], ['process_failed', 'park', 'loading'])
  assert.match(fault.error, /exited with code 3 .*cannot open .*weights\.gguf/)
  assert.match(fault.error, /a change of the command, the configuration or the model file/)
  // The category says that no restart followed: it would not find the file either. A prompt that is late by a second is one more start.
  assert.ok(fault.serve?.boot === 1 || fault.serve?.boot === 2)
  assert.equal(fault.serve.state, 'given_up')
  assert.deepEqual(fault.serve.exit, { code: 3, signal: null })
  assert.equal(resumeAt, null)
  writeFileSync(weights(folder), 'GGUF')
  const events = await finished()
  assert.equal(events.find((event) => event.type === 'resumed')?.because, 'signal')
})

test('a model server that keeps crashing parks the turn with its reason', async (t) => {
  const { parked, boots } = await served(t, () => NEVER_LOADS, { limits: NO_SLOW_PROBE })
  const { fault } = await parked()
  assert.deepEqual([fault.category, fault.next, fault.phase], ['crash_loop', 'park', 'loading'])
  assert.match(fault.error, /cannot open the weights/)
  assert.equal(boots(), FAILURES_MAX)
})

test('a changed command in the configuration wakes the turn', async (t) => {
  const { parked, finished, configure } = await served(t, () => NEVER_LOADS)
  await parked()
  configure('answers')
  await finished()
})

test('"resume" starts the server again', async (t) => {
  const bad = NEVER_LOADS.slice(0, FAILURES_MAX)
  const { api, turnId, parked, finished, boots } = await served(t, () => bad, { limits: { probeMsFirst: 1_500 } })
  await parked()
  await new Promise((resolve) => setTimeout(resolve, 1_550)) // a server that was just given up rests for one probe
  assert.equal((await api.call('POST', `/v1/turns/${turnId}/resume`)).status, 202)
  await finished()
  assert.equal(boots(), FAILURES_MAX + 1)
})

test('a slow probe starts the server again, once each time', async (t) => {
  const bad = NEVER_LOADS.slice(0, FAILURES_MAX + 1)
  const { finished, boots } = await served(t, () => bad, { limits: { probeMsFirst: 20 } })
  await finished()
  assert.equal(boots(), FAILURES_MAX + 2, 'the first slow start failed, the second worked')
})

test('a later turn does not fail with the old reason: it parks, too, and both finish once the server works', async (t) => {
  const { api, parked, finished, configure } = await served(t, () => NEVER_LOADS, { limits: NO_SLOW_PROBE })
  await parked()
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const second = (await api.events(id, ({ type }) => type === 'parked')).at(-1)
  assert.ok(second?.type === 'parked')
  assert.equal(second.fault.category, 'crash_loop')
  configure('answers')
  assert.equal((await api.call('POST', `/v1/turns/${turnId}/resume`)).status, 202)
  assert.equal((await api.ended(id, turnId)).at(-1)?.type, 'turn-end')
  await finished()
})

test('a crash loop tries the fallback models before it parks', async (t) => {
  const good = await startScriptedModel(() => ({ text: 'whole at last' }))
  atEnd(t, () => good.close())
  const model = { fallback: [{ baseUrl: good.baseUrl, name: 'second' }] }
  const { finished } = await served(t, () => NEVER_LOADS, { model })
  const events = await finished()
  const retry = events.find((event) => event.type === 'retry')
  assert.deepEqual([retry?.action, retry?.fault.category], ['fallback', 'crash_loop'])
  assert.equal(good.asked.length, 1)
})
