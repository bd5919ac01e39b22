/** Tools of MCP servers in turns: real servers, a real daemon, a scripted model. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { SessionEvent, SessionEventOf } from '@breakfall/wire'
import { tempFolder } from '../../../../test/kit/folder.ts'
import type { DaemonOptions } from '../../src/index.ts'
import type { Api } from '../support/api.ts'
import { badServer, reference } from '../support/mcp.ts'
import { inOrder, type Script, type ScriptedAnswer } from '../../../engine/test/support/scripted-model.ts'
import { rig, type Rig } from '../support/setup.ts'

const calls = (...given: readonly [tool: string, args: Record<string, unknown>][]): ScriptedAnswer => ({
  calls: given.map(([tool, args]) => ({ tool, arguments: args })),
})
const done: ScriptedAnswer = { text: 'done' }
const ofType = <T extends SessionEvent['type']>(events: readonly SessionEvent[], type: T): SessionEventOf<T>[] =>
  events.filter((event): event is SessionEventOf<T> => event.type === type)

const LIMITS = { mcpGraceMs: 15_000 }
const start = (
  t: TestContext,
  script: Script,
  mcp: DaemonOptions['mcp'],
  more: Partial<DaemonOptions> = {},
): Promise<Rig> =>
  rig(t, script, { mcp, policy: { backoffMs: 1, approve: 'never' }, ...more, limits: { ...LIMITS, ...more.limits } })

/** A turn without a box: only tools from outside. */
async function turn(
  api: Api,
  prompt = 'go',
  tools = ['mcp__s'],
): Promise<{ id: string; turnId: string; events: SessionEvent[] }> {
  const { id } = await api.session({ tools })
  const turnId = await api.prompt(id, prompt)
  const events = await api.ended(id, turnId)
  return { id, turnId, events }
}

test('a turn calls a tool of a reference server, and the journal has the call before it leaves', async (t) => {
  const { api, model } = await start(t, inOrder(calls(['mcp__s__echo', { message: 'hi' }]), done), {
    s: reference('everything'),
  })
  const { events } = await turn(api)
  const kinds = events.map((event) => event.type).filter((type) => type.startsWith('tool-') && type !== 'tool-draft')
  assert.deepEqual(kinds, ['tool-call', 'tool-output', 'tool-result'])
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ outcome, text }) => [outcome, text]),
    [['ok', 'Echo: hi']],
  )
  const names = JSON.stringify(model.asked[0]?.tools)
  assert.match(names, /mcp__s__get-sum/)
  const { json } = await api.call<{ servers: { name: string; state: string; era: string; tools: number }[] }>(
    'GET',
    '/v1/mcp',
  )
  assert.deepEqual(
    json.servers.map(({ name, state, era }) => [name, state, era]),
    [['s', 'ready', '2025-11-25']],
  )
})

test('a server killed in a call without hints: the outcome is unknown, and the call is not run again', async (t) => {
  const bad = badServer(tempFolder(t), 'dies-in-call')
  bad.dieInNextCall()
  const { api } = await start(t, inOrder(calls(['mcp__s__act', { n: 1 }]), calls(['mcp__s__look', { n: 2 }]), done), {
    s: bad.config,
  })
  const { events } = await turn(api)
  const results = ofType(events, 'tool-result').map(({ outcome, text }) => [outcome, text.slice(0, 31)])
  assert.deepEqual(results, [
    ['unknown', 'It is unknown whether this ran:'],
    ['ok', 'look done 2'],
  ])
  assert.deepEqual([bad.ran('act'), bad.ran('start')], [1, 2])
})

test('with trust and readOnlyHint the call is run once more', async (t) => {
  const bad = badServer(tempFolder(t), 'dies-in-call')
  bad.dieInNextCall()
  const { api } = await start(t, inOrder(calls(['mcp__s__look', {}]), done), { s: { ...bad.config, trust: true } })
  const { events } = await turn(api)
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ outcome }) => outcome),
    ['ok'],
  )
  assert.deepEqual([bad.ran('look'), ofType(events, 'tool-output').length], [2, 2])
})

test('a schema that changed over a restart: the call against the old one is refused by name', async (t) => {
  const bad = badServer(tempFolder(t), 'grows', 'dies-in-call')
  bad.dieInNextCall()
  const two = calls(['mcp__s__look', {}], ['mcp__s__act', { n: 1 }])
  const { api, model } = await start(t, inOrder(two, calls(['mcp__s__act', { n: 2 }]), done), { s: bad.config })
  const { events } = await turn(api)
  const [, refused, accepted] = ofType(events, 'tool-result')
  assert.equal(refused?.outcome, 'failed')
  assert.match(refused?.text ?? '', /mcp__s__act is not offered: its schema changed/)
  assert.equal(accepted?.text, 'act done 2')
  assert.equal(bad.ran('act'), 1)
  assert.match(JSON.stringify(model.asked.at(-1)?.tools), /added2/)
})

test('a tool that is gone after a restart is refused by name', async (t) => {
  const bad = badServer(tempFolder(t), 'no-tool', 'dies-in-call')
  bad.dieInNextCall()
  const { api } = await start(t, inOrder(calls(['mcp__s__look', {}], ['mcp__s__act', { n: 1 }]), done), {
    s: bad.config,
  })
  const { events } = await turn(api)
  assert.match(
    ofType(events, 'tool-result')[1]?.text ?? '',
    /mcp__s__act is not offered: its server does not offer it any more/,
  )
  assert.equal(bad.ran('act'), 0)
})

test('a server that never answers: a turn with other tools starts within the grace, and user and model learn what is missing', async (t) => {
  const bad = badServer(tempFolder(t), 'silent')
  const { api, model } = await start(t, inOrder(done), { s: bad.config }, { limits: { mcpGraceMs: 100 } })
  const { events } = await turn(api, 'go', ['read', 'mcp__s'])
  assert.deepEqual(ofType(events, 'turn-start')[0]?.missingTools, [{ server: 's', because: 'it is still starting' }])
  assert.match(JSON.stringify(model.asked[0]?.messages[0]), /not available now.*- s: it is still starting/s)
})

test('a turn whose only tools are missing waits for them, then parks, and asks no model without tools', async (t) => {
  const bad = badServer(tempFolder(t), 'late')
  const mcp = { s: { ...bad.config, awayMs: 200 } }
  const { api, model } = await start(t, inOrder(calls(['mcp__s__act', { n: 1 }]), done), mcp, {
    limits: { mcpGraceMs: 1 },
  })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  const parked = ofType(await api.events(id, (event) => event.type === 'parked'), 'parked')
  assert.deepEqual([parked[0]?.fault.category, model.asked.length], ['mcp_server_failed', 0])
  assert.match(parked[0]?.fault.error ?? '', /it is still starting/)
  bad.open()
  while ((await api.call<{ state: string }>('GET', '/v1/mcp/s')).json.state !== 'ready')
    await new Promise((resolve) => setTimeout(resolve, 20))
  await api.call('POST', `/v1/turns/${turnId}/resume`, {})
  const events = await api.ended(id, turnId)
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ text }) => text),
    ['act done 1'],
  )
  assert.match(JSON.stringify(model.asked[0]?.tools), /mcp__s__act/)
})

test('a server that becomes ready within awayMs: the first request to the model has its tools', async (t) => {
  const bad = badServer(tempFolder(t), 'late')
  const { api, model } = await start(t, inOrder(done), { s: bad.config }, { limits: { mcpGraceMs: 1 } })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'step-start')
  bad.open()
  await api.ended(id, turnId)
  assert.match(JSON.stringify(model.asked[0]?.tools), /mcp__s__act/)
})

test('the tools of a server that starts late join the same turn', async (t) => {
  const [slow, gated] = [badServer(tempFolder(t), 'late'), badServer(tempFolder(t), 'gated')]
  const script = inOrder(calls(['mcp__gated__act', { n: 1 }]), calls(['mcp__slow__act', { n: 2 }]), done)
  const mcp = { slow: slow.config, gated: gated.config }
  const { api, model } = await start(t, script, mcp, { limits: { mcpGraceMs: 100 } })
  const state = async (name: string): Promise<string | undefined> => {
    const { json } = await api.call<{ servers: { name: string; state: string }[] }>('GET', '/v1/mcp')
    return json.servers.find((server) => server.name === name)?.state
  }
  const until = async (name: string): Promise<void> => {
    while ((await state(name)) !== 'ready') await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await until('gated')
  const { id } = await api.session({ tools: ['mcp__slow', 'mcp__gated'] })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-output')
  assert.doesNotMatch(JSON.stringify(model.asked[0]?.tools), /mcp__slow/)
  slow.open()
  await until('slow')
  gated.open()
  const events = await api.ended(id, turnId)
  assert.deepEqual(ofType(events, 'turn-start')[0]?.missingTools, [{ server: 'slow', because: 'it is still starting' }])
  assert.match(JSON.stringify(model.asked[1]?.tools), /mcp__slow__act/)
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ text }) => text),
    ['act done 1', 'act done 2'],
  )
})

test('a server that dies again and again is usable in the same turn each time', async (t) => {
  const bad = badServer(tempFolder(t), 'dies-in-call')
  const rounds = [1, 2, 3, 4].flatMap((n) => [calls(['mcp__s__look', { n }]), calls(['mcp__s__act', { n }])])
  const inTurn = inOrder(...rounds, done)
  let asks = 0
  const script: Script = (asked, request) => {
    if (asks % 2 === 0 && asks < rounds.length) bad.dieInNextCall()
    asks += 1
    return inTurn(asked, request)
  }
  const { api, model } = await start(t, script, { s: bad.config })
  const { events } = await turn(api)
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ outcome }) => outcome),
    [1, 2, 3, 4].flatMap(() => ['unknown', 'ok']),
  )
  assert.deepEqual([bad.ran('look'), bad.ran('act'), bad.ran('start')], [4, 4, 5])
  assert.match(JSON.stringify(model.asked.at(-1)?.tools), /mcp__s__act/)
})

test('a cancel reaches the server', async (t) => {
  const bad = badServer(tempFolder(t), 'hangs')
  const { api } = await start(t, inOrder(calls(['mcp__s__act', {}]), done), { s: bad.config })
  const { id } = await api.session({ tools: ['mcp__s'] })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'tool-output')
  while (bad.ran('act') === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  await api.call('POST', `/v1/turns/${turnId}/cancel`, {})
  const events = await api.ended(id, turnId)
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ outcome }) => outcome),
    ['cancelled'],
  )
  while (bad.ran('cancelled') === 0) await new Promise((resolve) => setTimeout(resolve, 20))
})
