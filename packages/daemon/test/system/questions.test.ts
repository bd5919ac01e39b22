/** Questions of MCP servers during a call: the turn parks, a person answers, the call goes through once. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { SessionEvent, SessionEventOf } from '@breakfall/wire'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { eventually } from '../../../../test/kit/wait.ts'
import { inOrder, type ScriptedAnswer } from '../../../engine/test/support/scripted-model.ts'
import { type HttpMcp, startHttpMcp } from '../../../mcp/test/http-server.ts'
import type { DaemonOptions } from '../../src/index.ts'
import { badServer } from '../support/mcp.ts'
import { rig, type Rig } from '../support/setup.ts'

const act: ScriptedAnswer = { calls: [{ tool: 'mcp__s__act', arguments: { n: 1 } }] }
const done: ScriptedAnswer = { text: 'done' }
const limits = { mcpGraceMs: 15_000 }
type Asked = SessionEventOf<'approval-requested'>

const isPark = ({ type }: SessionEvent): boolean => type === 'parked'
const asked = (events: readonly SessionEvent[]): Asked =>
  events.findLast((event): event is Asked => event.type === 'approval-requested') ?? assert.fail('nothing was asked')
const results = (events: readonly SessionEvent[]): readonly (readonly [string, string])[] =>
  events.flatMap((event) => (event.type === 'tool-result' ? [[event.outcome, event.text] as const] : []))

/** Approves the call, and returns what its server then asks. */
async function untilAsked({ api }: Rig) {
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  const { callId } = asked(await api.events(id, isPark))
  const answerOn = (other: Rig['api'], body: object): Promise<{ status: number; json: Record<string, unknown> }> =>
    other.call('POST', `/v1/turns/${turnId}/approve`, { callId, ...body })
  assert.equal((await answerOn(api, { decision: 'allow' })).status, 202)
  let parks = 0
  const events = await api.events(id, (event) => isPark(event) && ++parks === 2)
  const { question } = asked(events)
  assert.ok(question !== undefined)
  const answer = (body: object) => answerOn(api, { question: question.id, ...body })
  return { id, turnId, events, question, answer, answerOn }
}

const start = (t: TestContext, mcp: DaemonOptions['mcp'], more: Partial<DaemonOptions> = {}): Promise<Rig> =>
  rig(t, inOrder(act, done, done), { mcp, limits, ...more })

async function asking(t: TestContext): Promise<HttpMcp> {
  const server = await startHttpMcp('2026')
  t.after(() => server.close())
  server.behaviour = 'asks'
  return server
}

test('a server that asks in the middle of a call gets the answer, and the call runs once', async (t) => {
  const bad = badServer(tempFolder(t), 'asks')
  const started = await start(t, { s: bad.config })
  const { api } = started
  const { id, turnId, question, answer, answerOn } = await untilAsked(started)
  assert.deepEqual([question.server, question.message], ['s', 'Which account?'])
  const waiting = await api.turn(turnId)
  assert.deepEqual([waiting.state, waiting.approval?.question], ['parked', question])
  assert.match(
    waiting.fault?.error ?? '',
    /^The MCP server s asks: Which account\? The turn waits for your answer, and its call/,
  )
  const field = async (body: object) => (await answer({ decision: 'allow', ...body })).json['errors']
  assert.match(JSON.stringify(await field({})), /value\.account","expected":"a value/)
  assert.match(JSON.stringify(await field({ value: { account: 7 } })), /value\.account","expected":".*string/)
  assert.match(
    JSON.stringify(await field({ value: { account: 'a', more: 'x' } })),
    /value\.more","expected":"one of account, limit/,
  )
  const bare = await answerOn(api, { decision: 'allow', question: 'another', value: { account: 'a' } })
  assert.deepEqual([bare.status, JSON.stringify(bare.json['errors']).includes('question')], [400, true])
  const both = await Promise.all([1, 2].map(() => answer({ decision: 'allow', value: { account: 'mine' } })))
  assert.deepEqual(
    both.map(({ status }) => status),
    [202, 202],
  )
  const events = await api.ended(id, turnId)
  const said = '{"action":"accept","content":{"account":"mine","limit":5}}'
  assert.deepEqual(results(events), [['ok', `acted on ${said}`]])
  assert.deepEqual(bad.lines().slice(1), ['act 1', `acted ${said}`])
  const again = await answer({ decision: 'allow', value: { account: 'mine' } })
  assert.deepEqual(
    [again.status, again.json['state']],
    [202, 'finished'],
    'an answer that was lost on its way is asked for again',
  )
  const other = await answer({ decision: 'deny' })
  assert.equal(other.status, 409)
  assert.match(String(other.json['error']), /^This call no longer waits: it was answered at /)
  const first = await answerOn(api, { decision: 'allow' })
  assert.equal(first.status, 202, 'the approval before the question, once more')
})

test('a declined question ends in what the server says to that', async (t) => {
  const bad = badServer(tempFolder(t), 'asks')
  const started = await start(t, { s: bad.config })
  const { id, turnId, answer } = await untilAsked(started)
  assert.equal((await answer({ decision: 'allow_session' })).status, 400)
  assert.equal((await answer({ decision: 'deny' })).status, 202)
  assert.deepEqual(results(await started.api.ended(id, turnId)), [['ok', 'acted on {"action":"decline"}']])
})

test('with approve "never", a question is declined', async (t) => {
  const bad = badServer(tempFolder(t), 'asks')
  const { api } = await start(t, { s: bad.config }, { policy: { approve: 'never' } })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const events = await api.ended(id, await api.prompt(id, 'go'))
  assert.deepEqual(results(events), [['ok', 'acted on {"action":"decline"}']])
  assert.equal(events.filter(isPark).length, 0)
})

test('a server that dies while its question waits ends the wait: the outcome is unknown, and the call is not run again', async (t) => {
  const bad = badServer(tempFolder(t), 'asks')
  const started = await start(t, { s: bad.config })
  const { id, turnId } = await untilAsked(started)
  process.kill(bad.pid(), 'SIGKILL')
  const [[outcome, text] = []] = results(await started.api.ended(id, turnId))
  assert.equal(outcome, 'unknown', text)
  assert.equal(bad.ran('act'), 1)
})

test('a restart of the daemon while a question of 2025 waits ends the wait with unknown', async (t) => {
  const bad = badServer(tempFolder(t), 'asks')
  const started = await start(t, { s: bad.config })
  const { id, turnId } = await untilAsked(started)
  const { api } = await started.restart()
  const [[outcome, text] = []] = results(await api.ended(id, turnId))
  assert.deepEqual([outcome, bad.ran('act')], ['unknown', 1])
  assert.match(text ?? '', /its server asked a question, and Breakfall was restarted before it was answered/)
})

test('a question of 2026 survives a restart of the daemon, and its answer continues the call', async (t) => {
  const server = await asking(t)
  const started = await start(t, { s: { url: server.url } })
  const { id, turnId, question, answerOn } = await untilAsked(started)
  const { api } = await started.restart()
  assert.deepEqual((await api.turn(turnId)).approval?.question, question)
  const body = { question: question.id, decision: 'allow', value: { account: 'mine' } }
  assert.equal((await answerOn(api, body)).status, 202)
  assert.deepEqual(results(await api.ended(id, turnId)), [['ok', 'acted']])
  const sent = server.answers.map(({ inputResponses, requestState }) => ({ inputResponses, requestState }))
  const response = { action: 'accept', content: { account: 'mine' } }
  assert.deepEqual(sent, [{ inputResponses: { sure: response }, requestState: 'asked' }])
  assert.equal(server.effects, 1)
})

test('cancelling a turn that waits with a question stops the call at its server', async (t) => {
  const bad = badServer(tempFolder(t), 'asks')
  const started = await start(t, { s: bad.config })
  const { id, turnId } = await untilAsked(started)
  await started.api.call('POST', `/v1/turns/${turnId}/cancel`, {})
  await started.api.ended(id, turnId)
  const { state } = await started.api.turn(turnId)
  assert.equal(state, 'cancelled')
  await eventually('it is told', () => bad.lines().some((line) => line.startsWith('cancelled ')))
  assert.ok(!bad.lines().some((line) => line.includes('accept')))
})

test('an answer that comes after "unknown" reaches the journal and the model once', async (t) => {
  const bad = badServer(tempFolder(t), 'gated')
  const script = inOrder(act, done, done)
  const mcp = { s: { ...bad.config, callMs: 300 } }
  const { api, model } = await rig(t, script, { mcp, limits, policy: { approve: 'never' } })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const [[outcome, text] = []] = results(await api.ended(id, await api.prompt(id, 'go')))
  assert.equal(outcome, 'unknown', text)
  const isLate = (event: SessionEvent): boolean => event.type === 'tool-output' && event.late !== undefined
  bad.open()
  const late = (await api.events(id, isLate)).at(-1)
  assert.deepEqual(late?.type === 'tool-output' && [late.late, late.text], ['ok', 'act done 1'])
  await api.ended(id, await api.prompt(id, 'and now?'))
  const read = JSON.stringify(model.asked.at(-1)?.messages)
  assert.equal(read.split('Later, it answered after all:').length, 2, read)
  assert.match(read, /It is unknown whether this ran[^]*Later, it answered after all:\\nact done 1/)
})
