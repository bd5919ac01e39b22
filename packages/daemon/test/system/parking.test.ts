import { LIMIT } from '../../../../test/kit/wait.ts'
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { closedPort } from '../../../../test/kit/tcp-server.ts'
import type { SessionEvent } from '@breakfall/wire'
import type { ModelConfig } from '@breakfall/engine'
import { types } from '../support/api.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, type Script, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

/** Refuses the first requests, then answers. */
const refusing =
  (times: number, answer: ReturnType<Script>): Script =>
  (_, request) =>
    request <= times ? answer : { text: 'at last' }

test('a long Retry-After parks the turn until that time', async (t) => {
  const now = Date.parse('2026-11-15T12:00:00Z')
  const { api, model } = await rig(t, refusing(1, { status: 429, headers: { 'retry-after': '18000' } }), {
    now: () => now,
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked')
  assert.equal(parked.resumeAt, new Date(now + 18_000_000).toISOString())
  assert.equal(parked.fault.category, 'model_rate_limited')
  assert.equal((await api.turn(turnId)).parked?.resumeAt, parked.resumeAt)
  assert.equal(model.asked.length, 1)
  const resumed = await api.call('POST', `/v1/turns/${turnId}/resume`)
  assert.equal(resumed.status, 202)
  const events = await api.ended(id, turnId)
  assert.equal(events.find((event) => event.type === 'resumed')?.because, 'person')
  assert.equal(model.asked.length, 2)
  assert.deepEqual((await api.call('POST', `/v1/turns/${turnId}/resume`)).json['category'], 'turn_not_parked')
})

test('a turn parked until a time resumes then, automatically, once, also across a restart', async (t) => {
  // The provider says 61 s; the daemon's clock is set ahead before the restart, past that time.
  let now = Date.parse('2026-11-15T12:00:00Z')
  const first = await rig(t, refusing(1, { status: 429, headers: { 'retry-after': '61' } }), { now: () => now })
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'parked')
  now += 61_000
  const { api } = await first.restart()
  const events = await api.ended(id, turnId)
  assert.deepEqual(
    types(events).filter((type) => type === 'resumed' || type === 'taken-over'),
    ['resumed'],
  )
  assert.equal(events.find((event) => event.type === 'resumed')?.because, 'time')
})

test(
  'after a machine slept through the wait, the turn resumes at once: the time of day counts, not the timer',
  LIMIT,
  async (t) => {
    let sleptMs = 0
    const { api } = await rig(t, refusing(1, { status: 429, headers: { 'retry-after': '18000' } }), {
      now: () => Date.now() + sleptMs,
    })
    const { id } = await api.session()
    const turnId = await api.prompt(id, 'go')
    await api.events(id, (event) => event.type === 'parked')
    sleptMs = 18_000_000
    const events = await api.ended(id, turnId)
    assert.equal(events.find((event) => event.type === 'resumed')?.because, 'time')
    assert.equal(events.at(-1)?.type, 'turn-end')
  },
)

test('a clock that is turned back by days during the wait before a retry does not prolong it', LIMIT, async (t) => {
  let backMs = 0
  const { api } = await rig(t, refusing(1, { status: 503, headers: { 'retry-after': '1' } }), {
    now: () => Date.now() - backMs,
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'retry')
  backMs = 2 * 24 * 3_600_000
  const events = await api.ended(id, turnId)
  assert.deepEqual(events.at(-1)?.type, 'turn-end')
})

test('refused credentials park the turn until the configuration changes', async (t) => {
  const script: Script = (asked) =>
    asked.authorization === 'Bearer the-right-key' ? { text: 'thank you' } : { status: 401 }
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  let config: ModelConfig = { baseUrl: model.baseUrl, name: 'scripted', apiKey: 'a-wrong-key-indeed' }
  const { api } = await rig(t, script, { model: config, reload: () => ({ model: config, runner: {} }) })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked' && parked.fault.category === 'model_auth_failed' && parked.resumeAt === null)
  assert.equal(model.asked.length, 1, 'refused credentials are not tried again')
  config = { ...config, apiKey: 'the-right-key' }
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.equal(events.find((event) => event.type === 'resumed')?.because, 'signal')
})

test('the next daemon notices a key that was set while no daemon ran', LIMIT, async (t) => {
  const script: Script = (asked) =>
    asked.authorization === 'Bearer the-right-key' ? { text: 'thanks' } : { status: 401 }
  const first = await rig(t, script)
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'parked')
  const second = await first.restart()
  assert.equal((await second.api.turn(turnId)).state, 'parked', 'a restart alone changes nothing')
  const { api } = await second.restart({
    model: { baseUrl: first.model.baseUrl, name: 'scripted', apiKey: 'the-right-key' },
  })
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'resumed' ? [event.because] : [])),
    ['signal'],
  )
})

const noCredit = {
  status: 429,
  body: {
    error: { code: 'insufficient_quota', type: 'insufficient_quota', message: 'You exceeded your current quota.' },
  },
} as const

test('a used-up quota parks the turn at once for an hour; a user can resume it sooner', async (t) => {
  const now = Date.parse('2026-11-15T12:00:00Z')
  const { api, model } = await rig(t, refusing(1, noCredit), { now: () => now, dice: () => 0 })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked')
  assert.deepEqual(
    [parked.fault.category, parked.resumeAt],
    ['model_quota_exhausted', new Date(now + 3_600_000).toISOString()],
  )
  assert.equal(model.asked.length, 1, 'a quota is not tried again at once')
  assert.equal((await api.call('POST', `/v1/turns/${turnId}/resume`)).status, 202)
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'resumed' ? [event.because] : [])),
    ['person'],
  )
  assert.equal(model.asked.length, 2)
})

test('another key also ends the wait for a used-up quota', LIMIT, async (t) => {
  const script: Script = (asked) => (asked.authorization === 'Bearer a-paid-account' ? { text: 'thank you' } : noCredit)
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  let config: ModelConfig = { baseUrl: model.baseUrl, name: 'scripted', apiKey: 'an-empty-account' }
  const { api } = await rig(t, script, { model: config, reload: () => ({ model: config, runner: {} }) })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked' && parked.fault.category === 'model_quota_exhausted')
  config = { ...config, apiKey: 'a-paid-account' }
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.equal(events.find((event) => event.type === 'resumed')?.because, 'signal')
})

test('without a network the turn waits, and resumes when the model can be reached', LIMIT, async (t) => {
  // The kernel itself refuses TCP to a group address: no route, as on a machine without a network.
  const model = await startScriptedModel(() => ({ text: 'back again' }))
  atEnd(t, () => model.close())
  let config: ModelConfig = { baseUrl: 'http://224.0.0.1:9/v1', name: 'far' }
  const { api } = await rig(t, () => ({}), { model: config, reload: () => ({ model: config, runner: {} }) })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked', JSON.stringify(parked))
  assert.deepEqual([parked.fault.category, parked.resumeAt], ['network_down', null])
  assert.match(parked.fault.errorRaw, /ENETUNREACH/)
  assert.equal((await api.turn(turnId)).state, 'parked')
  config = { ...config, baseUrl: model.baseUrl }
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'resumed' ? [event.because] : [])),
    ['signal'],
  )
})

test("the runner's refused token parks the turn until the token file is right", async (t) => {
  const runner = await testRunner(t)
  const tokenFile = join(tempFolder(t), 'token')
  writeFileSync(tokenFile, 'not-the-token\n')
  chmodSync(tokenFile, 0o600)
  const script = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'echo x' } }] }, { text: 'ok' })
  const { api } = await rig(t, script, { runner: { url: runner.url, tokenFile } })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked' && parked.fault.category === 'runner_auth_failed')
  const { readFileSync } = await import('node:fs')
  writeFileSync(tokenFile, readFileSync(runner.config.tokenFile ?? ''))
  assert.equal((await api.ended(id, turnId)).at(-1)?.type, 'turn-end')
})

test('an unreachable model parks the turn after its attempts, and the turn notices when it is back', async (t) => {
  const port = await closedPort()
  const { api } = await rig(t, () => ({}), {
    model: { baseUrl: `http://127.0.0.1:${port}/v1`, name: 'late' },
    policy: { attemptsMax: 2, backoffMs: 1 },
  })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  const parked = (await api.events(id, (event) => event.type === 'parked')).at(-1)
  assert.ok(parked?.type === 'parked' && parked.fault.category === 'model_unreachable', JSON.stringify(parked))
  const late = await startScriptedModel(() => ({ text: 'here I am' }), port)
  atEnd(t, () => late.close())
  const events = await api.ended(id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  assert.deepEqual(types(events).filter((type) => type === 'retry').length, 1)
})

for (const [what, answer] of [
  ['before they say anything', { status: 500 }],
  ['in the middle of their text', { text: 'One two three four', cutAfter: 1, pauseMs: 20 }],
] as const)
  test(`tries that fail ${what} are numbered and counted once each, across parks and resumes`, async (t) => {
    const { api, model } = await rig(t, () => answer, { policy: { attemptsMax: 2, backoffMs: 1 } })
    const { id } = await api.session()
    const turnId = await api.prompt(id, 'go')
    const isParked = (n: number) => {
      let parks = 0
      return (event: SessionEvent) => event.type === 'parked' && ++parks === n
    }
    for (const n of [1, 2, 3]) {
      const events = await api.events(id, isParked(n))
      const last = events.at(-1)
      assert.ok(last?.type === 'parked')
      const tries = events.flatMap((event) => (event.type === 'retry' ? [[event.attempt, event.max]] : []))
      const { attempt, max } = (last.fault as { retry: { attempt: number; max: number } }).retry
      assert.deepEqual(
        [...tries.map(([number]) => number), attempt],
        Array.from({ length: n }, (_, i) => 2 * i + 1).concat(2 * n),
      )
      assert.deepEqual([tries.at(-1)?.[1], max], [2 * n, 2 * n], 'max is the number of the last try')
      const { json: turn } = await api.call<{ attempts: number }>('GET', `/v1/turns/${turnId}`)
      assert.deepEqual([turn.attempts, model.asked.length], [2 * n, 2 * n])
      await api.call('POST', `/v1/turns/${turnId}/resume`)
    }
  })

test('a turn parked for longer than allowed ends with the category that parked it', async (t) => {
  const { api } = await rig(t, () => ({ status: 401 }))
  const { id } = await api.session({ policy: { parkMsMax: 200 } })
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error')
  assert.deepEqual([end.category, end.stopped], ['model_auth_failed', 'park_time_spent'])
})

test('with parking off, a model that keeps failing ends the turn with its category and the reason for stopping', async (t) => {
  const { api, model } = await rig(t, () => ({ status: 500 }), {
    policy: { backoffMs: 1, attemptsMax: 3, park: 'never' },
  })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error')
  assert.deepEqual([end.category, end.stopped], ['model_server_error', 'attempts_spent'])
  assert.equal(model.asked.length, 3)
  assert.deepEqual(
    events.filter((event) => event.type === 'retry').map(({ attempt, max, action }) => [attempt, max, action]),
    [
      [1, 3, 'retry'],
      [2, 3, 'retry'],
    ],
  )
})

for (const action of ['resume', 'cancel'] as const)
  test(`a ${action} takes effect at once while a probe is under way`, LIMIT, async (t) => {
    const probing = Promise.withResolvers<void>()
    const isReleased = Promise.withResolvers<void>()
    let reads = 0
    let isParked = false
    const reload = async () => {
      if (isParked && (reads += 1) === 1) {
        probing.resolve()
        await isReleased.promise // the probe hangs, as one of a host that drops packets does
      }
      return { model: { baseUrl: model.baseUrl, name: 'scripted' }, runner: {} }
    }
    const model = await startScriptedModel(refusing(1, { status: 401 }))
    atEnd(t, () => model.close())
    const { api } = await rig(t, () => ({}), { model: { baseUrl: model.baseUrl, name: 'scripted' }, reload })
    atEnd(t, () => isReleased.resolve())
    const { id } = await api.session()
    const turnId = await api.prompt(id, 'go')
    await api.events(id, (event) => event.type === 'parked')
    isParked = true
    await probing.promise
    const askedAt = performance.now()
    assert.equal((await api.call('POST', `/v1/turns/${turnId}/${action}`)).status, 202)
    const end = (await api.ended(id, turnId)).at(-1)
    assert.ok(performance.now() - askedAt < 20_000, 'the probe, which may take 30 s, was waited for')
    assert.deepEqual(
      end?.type === 'turn-error' ? end.category : end?.type,
      action === 'resume' ? 'turn-end' : 'cancelled',
    )
  })

test('a key that is set in the moment in which something else wakes the turn resumes it', LIMIT, async (t) => {
  const script: Script = (asked) =>
    asked.authorization === 'Bearer the-right-key' ? { text: 'thanks' } : { status: 401 }
  const first = await rig(t, script)
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'parked')
  const model = { baseUrl: first.model.baseUrl, name: 'scripted' }
  let isSet = false
  let wake = (): void => undefined
  const reload = () => {
    if (!isSet) return { model, runner: {} }
    wake()
    wake = () => undefined
    return { model: { ...model, apiKey: 'the-right-key' }, runner: {} }
  }
  const { api, daemon } = await first.restart({ recover: 'interrupted', reload })
  wake = () => daemon.sessions.loader.peek(id)?.wake()
  isSet = true
  assert.equal((await api.ended(id, turnId)).at(-1)?.type, 'turn-end')
})
