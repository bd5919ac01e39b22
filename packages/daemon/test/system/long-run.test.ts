import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { SessionEvent, SessionList } from '@breakfall/wire'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { wholeLines } from '../../../../test/kit/whole-lines.ts'
import { type DaemonOptions, startDaemon } from '../../src/index.ts'
import { Api } from '../support/api.ts'
import { spawnDaemon } from '../support/daemon-process.ts'
import { lastOf, ofType } from '../../../engine/test/support/events.ts'
import { QUICK, rig, stopRunner } from '../support/setup.ts'
import { PROMPT, startWindowedModel, type WindowedModel, type WindowedOptions } from '../support/windowed-model.ts'

type Setup = {
  readonly model: WindowedModel
  readonly options: DaemonOptions
  readonly workspace: string
  readonly effects: () => readonly string[]
}

const EFFECT_EVERY = 10 // a process takes far longer than reading a file

/** Each step shows that many bytes; every tenth leaves its number in `effects`. */
async function setUp(
  t: TestContext,
  given: Pick<WindowedOptions, 'steps' | 'windowBytes' | 'cutSummaries' | 'isTalkative'> & { resultBytes: number },
): Promise<Setup> {
  const [workspace, stateDir] = [tempFolder(t), tempFolder(t)]
  writeFileSync(join(workspace, 'big'), `${'0123456789abcde\n'.repeat(given.resultBytes / 16)}`)
  const call = (step: number) =>
    step % EFFECT_EVERY === 0
      ? { tool: 'bash', arguments: { command: `echo ${step} >> effects; cat big` } }
      : { tool: 'read', arguments: { path: 'big' } }
  const model = await startWindowedModel({ ...given, call })
  atEnd(t, () => model.close())
  atEnd(t, () => stopRunner(stateDir))
  const options = {
    stateDir,
    model: { baseUrl: model.baseUrl, name: 'windowed' },
    runner: { allowWorkspace: [workspace] },
    policy: { backoffMs: 1, stepsMax: 1_000 },
    limits: QUICK,
    logLevel: 'silent',
  }
  const effects = (): readonly string[] => wholeLines(join(workspace, 'effects'))
  return { model, options, workspace, effects }
}

const once = (steps: number): readonly string[] =>
  Array.from({ length: steps / EFFECT_EVERY }, (_, n) => String((n + 1) * EFFECT_EVERY))

async function runThrough(api: Api, workspace: string): Promise<readonly SessionEvent[]> {
  const { id } = await api.session({ box: { workspace } })
  return api.ended(id, await api.prompt(id, PROMPT))
}

function assertShrinks(events: readonly SessionEvent[]): void {
  for (const { requestBytesBefore, requestBytesAfter } of ofType(events, 'compacted'))
    assert.ok(requestBytesAfter < requestBytesBefore)
}

test('300 steps with 20 KB results in a 400 KB window run to the end, each effect once', async (t) => {
  const { model, options, workspace, effects } = await setUp(t, {
    steps: 300,
    windowBytes: 400_000,
    resultBytes: 20_000,
  })
  const daemon = await startDaemon(options)
  atEnd(t, () => daemon.close())
  const events = await runThrough(new Api(daemon), workspace)
  const end = lastOf(events, 'turn-end')
  assert.deepEqual([end.text, end.steps], ['all done', 301])
  assert.deepEqual(effects(), once(300))
  assert.equal(model.seen.withoutPrompt, 0)
  assert.equal(model.seen.overflows, 1, 'the first overflow says how long the window is')
  const shortenings = ofType(events, 'compacted')
  assert.ok(shortenings.length > 10 && shortenings.length <= 50, `${shortenings.length} compactions`)
  assert.ok(model.seen.summaries > 0 && model.seen.bytesMax > 300_000, JSON.stringify(model.seen))
  assertShrinks(events)
})

test('a known window is never overflowed, and the tokens of summaries count', async (t) => {
  const { model, options, workspace } = await setUp(t, { steps: 40, windowBytes: 32_000, resultBytes: 1_600 })
  const daemon = await startDaemon({ ...options, model: { ...options.model, contextTokens: 8_000 } })
  atEnd(t, () => daemon.close())
  const events = await runThrough(new Api(daemon), workspace)
  assert.equal(lastOf(events, 'turn-end').text, 'all done')
  assert.equal(model.seen.overflows, 0)
  const { usage } = lastOf(events, 'turn-end')
  const spent = [...ofType(events, 'compacted'), ...ofType(events, 'tool-call')]
  const counted = spent.reduce((sum, event) => sum + (event.usage?.inputTokens.value ?? 0), 0)
  assert.ok(ofType(events, 'compacted').some((event) => event.summaryBytes > 0 && event.usage !== undefined))
  assert.ok((usage.inputTokens.value ?? 0) > counted, 'and the last answer on top')
})

test('a server that says nothing about its window teaches it by refusing; broken summaries are asked for again', async (t) => {
  const rude = { steps: 40, windowBytes: 32_000, resultBytes: 1_600, isTalkative: false, cutSummaries: 2 }
  const { model, options, workspace, effects } = await setUp(t, rude)
  const daemon = await startDaemon(options)
  atEnd(t, () => daemon.close())
  const events = await runThrough(new Api(daemon), workspace)
  assert.equal(lastOf(events, 'turn-end').text, 'all done')
  assert.deepEqual(effects(), once(40))
  const written = ofType(events, 'compacted').filter(({ summaryBytes }) => summaryBytes > 0).length
  assert.ok(written > 0)
  assert.equal(model.seen.summaries, written * 3)
  assert.equal(
    ofType(events, 'text-delta')
      .map(({ text }) => text)
      .join(''),
    'all done',
    'no summary is shown as an answer',
  )
})

for (const point of ['before:compacted', 'after:compacted', 'answer:text-delta'])
  test(`a daemon killed at ${point} while it compacts continues, with each effect once`, async (t) => {
    const given = { steps: 30, windowBytes: 32_000, resultBytes: 1_600 }
    const { options, workspace, effects } = await setUp(t, given)
    const first = await spawnDaemon(options)
    const { id } = await first.api.session({ box: { workspace } })
    await first.arm(point) // the first text is that of a summary: steps only call a tool
    const turnId = await first.api.prompt(id, PROMPT)
    assert.equal(await first.ended, 'SIGKILL')
    const second = await spawnDaemon(options)
    t.after(() => second.kill('SIGKILL'))
    const events = await second.api.ended(id, turnId)
    assert.equal(lastOf(events, 'turn-end').text, 'all done')
    assert.deepEqual(effects(), once(30))
    assert.equal(ofType(events, 'taken-over').length, 1)
    assertShrinks(events)
    second.kill('SIGTERM')
    await second.ended
  })

test('a request that cannot get shorter stops the turn and says why', async (t) => {
  const overflow = { status: 400, body: { error: { code: 'context_length_exceeded', message: 'too long' } } }
  const big = { calls: [{ tool: 'bash', arguments: { command: "printf 'x%.0s' $(seq 3000)" } }] }
  const { api, model } = await rig(t, ({ messages }) =>
    messages.filter(({ role }) => role === 'tool').length < 2 ? big : overflow,
  )
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = lastOf(events, 'turn-error')
  assert.deepEqual([end.category, end.stopped], ['model_context_overflow', 'cannot_compact'])
  assert.match(end.error, /nothing is left to shorten/)
  assert.equal(ofType(events, 'compacted').length, 1)
  assert.equal(model.asked.length, 4)
  const strict = await api.session({ policy: { compactionsMax: 0 } })
  const stopped = lastOf(await api.ended(strict.id, await api.prompt(strict.id, 'go')), 'turn-error')
  assert.equal(stopped.stopped, 'compactions_spent')
})

test('a turn without steps left parks and asks; resume grants as many again, and another prompt continues', async (t) => {
  const step = { calls: [{ tool: 'bash', arguments: { command: 'true' } }] }
  const { api } = await rig(t, ({ messages }) =>
    messages.filter(({ role }) => role === 'tool').length < 5 ? step : { text: 'finished' },
  )
  const { id } = await api.session({ policy: { stepsMax: 2 } })
  const first = await api.prompt(id, 'go')
  const isParked = (event: SessionEvent): boolean => event.type === 'parked'
  const parked = lastOf(await api.events(id, isParked), 'parked')
  assert.deepEqual([parked.because, parked.resumeAt, parked.fault.category], ['steps_spent', null, 'steps_spent'])
  assert.match(parked.fault.error, /has used its 2 steps and is not finished\. The turn waits/)
  const wait = { for: 'person', question: 'steps', needsPerson: true, until: null, expiresAt: null }
  assert.deepEqual(parked.wait, wait)
  const { json } = await api.call<SessionList>('GET', '/v1/sessions?state=needs')
  assert.deepEqual(
    json.sessions.map(({ turn }) => [turn?.id, turn?.parked?.wait]),
    [[first, wait]],
  )
  const view = await api.turn(first)
  assert.deepEqual([view.state, view.parked?.because], ['parked', 'steps_spent'])
  assert.equal((await api.call('POST', `/v1/turns/${first}/resume`, {})).status, 202)
  const again = lastOf(await api.events(id, isParked, parked.seq), 'parked')
  assert.equal((await api.turn(first)).steps, 4)
  const second = await api.prompt(id, 'go on')
  const events = await api.ended(id, second, again.seq)
  const [superseded] = ofType(events, 'turn-error')
  assert.deepEqual([superseded?.category, superseded?.turnId, superseded?.actor], ['cancelled', first, 'superseded'])
  assert.equal(lastOf(events, 'turn-end').text, 'finished')
  const never = await api.session({ policy: { stepsMax: 2, park: 'never' } })
  const failed = lastOf(await api.ended(never.id, await api.prompt(never.id, 'go')), 'turn-error')
  assert.deepEqual([failed.category, failed.stopped], ['steps_spent', 'steps_spent'])
})
