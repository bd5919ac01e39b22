/** Tool calls that wait for a person: durable, answered over the API, told to the model. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { SessionEvent, SessionEventOf, Turn } from '@breakfall/wire'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { badServer } from '../support/mcp.ts'
import { inOrder, type ScriptedAnswer } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const act = (n: number): ScriptedAnswer => ({ calls: [{ tool: 'mcp__s__act', arguments: { n } }] })
const done: ScriptedAnswer = { text: 'done' }
const isParked = (event: SessionEvent): boolean => event.type === 'parked'
const results = (events: readonly SessionEvent[]): readonly (readonly [string, string])[] =>
  events.flatMap((event) => (event.type === 'tool-result' ? [[event.outcome, event.text] as const] : []))
const question = (events: readonly SessionEvent[]): SessionEventOf<'approval-requested'> | undefined =>
  events.findLast((event): event is SessionEventOf<'approval-requested'> => event.type === 'approval-requested')
const limits = { mcpGraceMs: 15_000 }

test('a call waits durably, survives a restart, runs once after a yes for the session, and is not asked again', async (t) => {
  const bad = badServer(tempFolder(t))
  const mcp = { s: bad.config }
  const first = await rig(t, inOrder(act(1), act(2), done), { mcp, limits })
  const { id } = await first.api.session({ tools: ['mcp__s'] })
  const turnId = await first.api.prompt(id, 'go')
  const before = await first.api.events(id, isParked)
  assert.deepEqual(
    before.slice(-2).map(({ type }) => type),
    ['approval-requested', 'parked'],
  )
  assert.equal(bad.ran('act'), 0)
  const { api } = await first.restart({ mcp, limits })
  const waiting = await api.turn(turnId)
  assert.deepEqual(
    [waiting.state, waiting.parked?.category, waiting.approval?.tool],
    ['parked', 'approval_needed', 'mcp__s__act'],
  )
  const callId = question(before)?.callId ?? ''
  const unknown = await api.call('POST', `/v1/turns/${turnId}/approve`, { callId: 'nobody', decision: 'allow' })
  assert.equal(unknown.status, 404)
  const { status } = await api.call<Turn>('POST', `/v1/turns/${turnId}/approve`, { callId, decision: 'allow_session' })
  assert.equal(status, 202)
  const events = await api.ended(id, turnId)
  assert.deepEqual(results(events), [
    ['ok', 'act done 1'],
    ['ok', 'act done 2'],
  ])
  assert.deepEqual([bad.ran('act'), events.filter(({ type }) => type === 'approval-requested').length], [2, 1])
  const late = await api.call('POST', `/v1/turns/${turnId}/approve`, { callId, decision: 'allow' })
  assert.deepEqual([late.status, late.json['category']], [409, 'turn_not_parked'])
})

test('the same answer is accepted once more, and another one is not', async (t) => {
  const bad = badServer(tempFolder(t))
  const both = { calls: [...(act(1).calls ?? []), ...(act(2).calls ?? [])] }
  const { api } = await rig(t, inOrder(both, done), { mcp: { s: bad.config }, limits })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  const callId = question(await api.events(id, isParked))?.callId ?? ''
  const answer = async (decision: string): Promise<number> =>
    (await api.call('POST', `/v1/turns/${turnId}/approve`, { callId, decision })).status
  assert.equal(await answer('allow'), 202)
  const asked = await api.events(id, ({ type, seq }) => type === 'parked' && seq > 10)
  assert.equal(asked.filter(({ type }) => type === 'approval-requested').length, 2)
  assert.deepEqual([await answer('allow'), await answer('deny'), bad.ran('act')], [202, 409, 1])
})

test('a denial reaches the model with its reason, and the call does not run', async (t) => {
  const bad = badServer(tempFolder(t))
  const { api, model } = await rig(t, inOrder(act(1), done), { mcp: { s: bad.config }, limits })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  const { callId } = question(await api.events(id, isParked)) ?? { callId: '' }
  await api.call('POST', `/v1/turns/${turnId}/approve`, { callId, decision: 'deny', reason: 'use the other one' })
  const events = await api.ended(id, turnId)
  assert.deepEqual(results(events), [['failed', 'This was not run: the user denied it, saying: use the other one']])
  assert.match(JSON.stringify(model.asked.at(-1)?.messages), /saying: use the other one/)
  assert.equal(bad.ran('act'), 0)
})

test('an approval that nobody gives expires: the turn ends with approval_needed, and the call is reported as not run', async (t) => {
  const bad = badServer(tempFolder(t))
  const { api } = await rig(t, inOrder(act(1), done), { mcp: { s: bad.config }, limits, policy: { approveMsMax: 200 } })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  const events = await api.ended(id, turnId)
  const last = events.at(-1)
  assert.ok(last?.type === 'turn-error')
  assert.deepEqual([last.category, last.stopped], ['approval_needed', 'park_time_spent'])
  assert.match(results(events)[0]?.[1] ?? '', /^This was not run/)
  assert.equal(bad.ran('act'), 0)
})

test('a clock that is turned forward ends no wait while the daemon lives', async (t) => {
  const bad = badServer(tempFolder(t))
  let aheadMs = 0
  const now = (): number => Date.now() + aheadMs
  const { api } = await rig(t, inOrder(act(1), done, done), { mcp: { s: bad.config }, limits, now })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  const { callId, expiresAt } = question(await api.events(id, isParked)) ?? { callId: '', expiresAt: null }
  aheadMs = 365 * 24 * 3_600_000
  assert.ok(now() > Date.parse(expiresAt ?? ''))
  const nextId = await api.prompt(id, 'and then', { queue: true }) // the session looks at the clock
  await api.call('POST', `/v1/turns/${nextId}/cancel`, {})
  assert.equal((await api.turn(turnId)).state, 'parked')
  await api.call('POST', `/v1/turns/${turnId}/approve`, { callId, decision: 'allow' })
  assert.deepEqual(results(await api.ended(id, turnId)), [['ok', 'act done 1']])
})

test('an approval expires when its time has passed, also if the clock is turned back meanwhile', async (t) => {
  const bad = badServer(tempFolder(t))
  let aheadMs = 0
  const now = (): number => Date.now() + aheadMs
  const policy = { approveMsMax: 2_000 }
  const { api } = await rig(t, inOrder(act(1), done), { mcp: { s: bad.config }, limits, policy, now })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, isParked)
  aheadMs = -365 * 24 * 3_600_000
  const last = (await api.ended(id, turnId)).at(-1)
  assert.equal(last?.type === 'turn-error' && last.category, 'approval_needed')
})

test('a call whose box has no known level makes the box first, and asks if that is no sandbox', async (t) => {
  const command = { calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] }
  const runner = { isolation: 'process', level: 'process' } as const
  const { api } = await rig(t, inOrder(command, done), { runner })
  const { id } = await api.session({}) // no runner is known yet
  const turnId = await api.prompt(id, 'go')
  const asked = await api.events(id, isParked)
  assert.match(question(asked)?.why ?? '', /no sandbox/)
  assert.deepEqual(results(asked), [])
  const callId = question(asked)?.callId
  await api.call('POST', `/v1/turns/${turnId}/approve`, { callId, decision: 'allow' })
  assert.deepEqual(results(await api.ended(id, turnId)), [['ok', 'ran']])
})

test('a trusted read-only tool does not wait; approve: always asks for it too', async (t) => {
  const bad = badServer(tempFolder(t))
  const look: ScriptedAnswer = { calls: [{ tool: 'mcp__s__look', arguments: {} }] }
  const mcp = { s: { ...bad.config, trust: true } }
  const { api } = await rig(t, inOrder(look, done), { mcp, limits })
  const free = await api.session({ tools: ['mcp__s'] })
  assert.deepEqual(results(await api.ended(free.id, await api.prompt(free.id, 'go'))), [['ok', 'look done']])
  const strict = await api.session({ tools: ['mcp__s'], policy: { approve: 'always' } })
  await api.prompt(strict.id, 'go')
  assert.equal(question(await api.events(strict.id, isParked))?.why, 'the policy asks before every call')
})

test('commands in a box of level process wait, those in a sandbox do not, and a custom tool gets JSON on its stdin', async (t) => {
  const workspace = tempFolder(t)
  const script = inOrder(
    { calls: [{ tool: 'shout', arguments: { word: "it's" } }] },
    { calls: [{ tool: 'bash', arguments: { command: 'touch made' } }] },
    done,
  )
  const shout = {
    command: ['sh', '-c', 'read -r line; printf "%s\\n" "$line" | tr a-z A-Z'],
    effect: 'pure',
    description: 'Shouts.',
    schema: { type: 'object', properties: { word: { type: 'string' } } },
  } as const
  const runner = { allowWorkspace: [workspace], isolation: 'process' } as const
  const { api } = await rig(t, script, { runner, tools: { shout } })
  const { id } = await api.session({ box: { workspace, isolation: { level: 'process' } } })
  const turnId = await api.prompt(id, 'go')
  const before = await api.events(id, isParked)
  assert.deepEqual(results(before), [['ok', '{"WORD":"IT\'S"}']])
  assert.equal(question(before)?.tool, 'bash')
  assert.equal(existsSync(join(workspace, 'made')), false)
  await api.call('POST', `/v1/turns/${turnId}/approve`, { callId: question(before)?.callId, decision: 'allow' })
  await api.ended(id, turnId)
  assert.equal(existsSync(join(workspace, 'made')), true)
})
