/** Tools of MCP servers when the daemon is killed with -9, and when credentials are missing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startHttpMcp } from '../../../mcp/test/http-server.ts'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { spawnDaemon } from '../support/daemon-process.ts'
import { badServer, isAlive } from '../support/mcp.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor, rig } from '../support/setup.ts'

const script = inOrder({ calls: [{ tool: 'mcp__s__act', arguments: {} }] }, { text: 'done' })
const policy = { backoffMs: 1, approve: 'never' } as const

test('after kill -9 of the daemon no server is left, and a call that was under way is unknown and not run again', async (t) => {
  const bad = badServer(tempFolder(t), 'hangs', 'stays')
  const { options } = await optionsFor(t, script)
  const all = { ...options, policy, mcp: { s: bad.config }, limits: { ...options.limits, mcpGraceMs: 15_000 } }
  const first = await spawnDaemon(all)
  const { id } = await first.api.session({ tools: ['mcp__s'] })
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'tool-output')
  while (bad.ran('act') === 0) await new Promise((resolve) => setTimeout(resolve, 20))
  const pid = bad.pid()
  first.kill('SIGKILL')
  await first.ended
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20))
  const second = await spawnDaemon(all)
  atEnd(t, async () => {
    second.kill('SIGTERM')
    await second.ended
  })
  const events = await second.api.ended(id, turnId)
  const outcomes = events.flatMap((event) => (event.type === 'tool-result' ? [event.outcome] : []))
  assert.deepEqual([outcomes, bad.ran('act')], [['unknown'], 1])
})

test('a daemon killed while it polls a task: the next one polls the same task and gets its result', async (t) => {
  const http = await startHttpMcp('2026')
  atEnd(t, () => http.close())
  http.behaviour = 'task'
  const { options } = await optionsFor(t, script)
  const all = { ...options, policy, mcp: { s: { url: http.url } }, limits: { ...options.limits, mcpGraceMs: 15_000 } }
  const first = await spawnDaemon(all)
  const { id } = await first.api.session({ tools: ['mcp__s'] })
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, (event) => event.type === 'tool-output' && event.sent?.taskId === 'task-1')
  while (!http.seen.includes('tasks/get')) await new Promise((resolve) => setTimeout(resolve, 20))
  first.kill('SIGKILL')
  await first.ended
  http.taskStatus = 'completed'
  const second = await spawnDaemon(all)
  atEnd(t, async () => {
    second.kill('SIGTERM')
    await second.ended
  })
  const events = await second.api.ended(id, turnId)
  const results = events.flatMap((event) => (event.type === 'tool-result' ? [[event.outcome, event.text]] : []))
  assert.deepEqual(results, [['ok', 'result of task-1']])
  assert.equal(http.seen.filter((method) => method === 'tools/call').length, 1)
})

test('a server that rejects the credentials parks the turn, and a new token continues it', async (t) => {
  const http = await startHttpMcp()
  atEnd(t, () => http.close())
  let token = 'old'
  const live = () => ({ s: { url: http.url, headers: { 'x-token': token } } })
  const { api, model } = await rig(t, script, {
    policy,
    mcp: live(),
    limits: { mcpGraceMs: 15_000 },
    reload: () => ({ model: { baseUrl: model.baseUrl, name: 'scripted' }, runner: {}, mcp: live() }),
  })
  const { id } = await api.session({ tools: ['mcp__s'] })
  while ((await api.call<{ servers: { state: string }[] }>('GET', '/v1/mcp')).json.servers[0]?.state !== 'ready')
    await new Promise((resolve) => setTimeout(resolve, 20))
  http.behaviour = '401'
  const turnId = await api.prompt(id, 'go')
  await api.events(id, (event) => event.type === 'parked')
  assert.equal((await api.turn(turnId)).parked?.category, 'mcp_auth_failed')
  http.behaviour = 'ok'
  token = 'new'
  const events = await api.ended(id, turnId)
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'tool-result' ? [event.text] : [])),
    ['acted'],
  )
})
