/** A call is sent once, even if its session ends, and its outcome is reported truthfully. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { badServer } from '../../../daemon/test/support/mcp.ts'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { type CallEnd, McpHost, type McpLimits, type McpServer, type McpServerConfig } from '../../src/index.ts'
import { type HttpMcp, startHttpMcp } from '../http-server.ts'

const LIMIT = { timeout: 60_000 }

async function start(t: TestContext, config: McpServerConfig, limits: Partial<McpLimits> = {}): Promise<McpServer> {
  const host = new McpHost({ limits })
  atEnd(t, () => host.stop())
  host.configure({ s: config })
  await host.settled(20_000)
  const server = host.server('s')
  assert.ok(server !== undefined)
  return server
}

async function startHttp(
  t: TestContext,
  era: '2025' | '2026' = '2025',
  limits: Partial<McpLimits> = {},
): Promise<{ readonly http: HttpMcp; readonly server: McpServer }> {
  const http = await startHttpMcp(era)
  atEnd(t, () => http.close())
  return { http, server: await start(t, { url: http.url }, limits) }
}

let keys = 0
const call = (server: McpServer, tool = 'act') =>
  server.call(
    { tool: `mcp__s__${tool}`, arguments: {}, key: `k${(keys += 1)}` },
    { signal: AbortSignal.timeout(30_000) },
  )
const said = (end: CallEnd): string =>
  end.kind === 'answered'
    ? end.text
    : 'fault' in end
      ? `${end.kind} ${end.fault.category}: ${end.fault.error}`
      : end.kind

for (const status of [404, 400] as const)
  test(`a server that acts and then answers ${status} to the session is not asked again`, LIMIT, async (t) => {
    const { http, server } = await startHttp(t)
    http.behaviour = `acts-then-${status}`
    assert.match(said(await call(server)), /^lost mcp_unreachable: /)
    assert.equal(http.effects, 1)
    assert.equal(said(await call(server)), 'acted', 'a new session takes the next call')
    assert.equal(http.effects, 2)
  })

test('a session that the server forgot between two calls is noticed before the next call leaves', LIMIT, async (t) => {
  const { http, server } = await startHttp(t, '2025', { quietMs: 0 })
  http.forget()
  http.seen.length = 0
  assert.equal(said(await call(server)), 'acted')
  assert.deepEqual(
    http.seen.filter((method) => ['ping', 'initialize', 'tools/call'].includes(method)),
    ['ping', 'initialize', 'tools/call'],
  )
})

test(
  'a server at a URL that restarts is waited for, and a call that could not leave is sent then',
  LIMIT,
  async (t) => {
    const first = await startHttpMcp()
    const server = await start(t, { url: first.url }, { quietMs: 60_000 })
    await first.close()
    const steps: string[] = []
    const step = (name: string) => async (): Promise<void> => void steps.push(name)
    const ended = server.call(
      { tool: 'mcp__s__act', arguments: {}, key: 'k' },
      { signal: AbortSignal.timeout(30_000), onSent: step('sent'), onUnsent: step('not sent') },
    )
    while (steps.length < 2) await new Promise((resolve) => setTimeout(resolve, 5))
    const second = await startHttpMcp('2025', Number(new URL(first.url).port))
    atEnd(t, () => second.close())
    assert.equal(said(await ended), 'acted')
    assert.deepEqual([steps, second.effects], [['sent', 'not sent', 'sent'], 1])
  },
)

test('a server that stays away is waited for as long as awayMs says', LIMIT, async (t) => {
  const http = await startHttpMcp()
  const server = await start(t, { url: http.url, awayMs: 50 }, { quietMs: 0 })
  await http.close()
  assert.match(said(await call(server)), /^refused mcp_unreachable: /)
})

test('a call beyond the rights of the login says which rights it needs, and the server stays', LIMIT, async (t) => {
  const { http, server } = await startHttp(t)
  http.behaviour = 'scope'
  assert.equal(
    said(await call(server)),
    'refused mcp_auth_failed: The MCP server s needs more rights for this call than your login has (scope act:write). Log in again with "breakfall mcp login s", which asks for them too.',
  )
  http.behaviour = 'ok'
  assert.deepEqual([server.state, http.effects], ['ready', 0])
})

test('a call that asks for input is not said to have run', LIMIT, async (t) => {
  const { http, server } = await startHttp(t, '2026')
  http.behaviour = 'asks'
  assert.equal(
    said(await call(server)),
    'This call was not completed: its server asks for input, which Breakfall cannot give. It asks: Which account?',
  )
  assert.equal(http.effects, 0)
})

test('a call that its server only defers is continued with the state that it gave', LIMIT, async (t) => {
  const { http, server } = await startHttp(t, '2026')
  http.behaviour = 'defers'
  assert.deepEqual([said(await call(server)), http.effects], ['acted', 1])
})

test('a result of 2026 that does not say its kind is used', LIMIT, async (t) => {
  const { http, server } = await startHttp(t, '2026')
  http.behaviour = 'bare'
  assert.equal(said(await call(server)), 'acted')
})

test('an answer without its last newline counts, from a process and over HTTP', LIMIT, async (t) => {
  const process = await start(t, badServer(tempFolder(t), 'unterminated').config)
  assert.equal(said(await call(process)), 'act done')
  const { http, server } = await startHttp(t)
  http.behaviour = 'unterminated'
  assert.equal(said(await call(server)), 'acted')
})

test('a server that cannot list its tools is kept, says why, and is asked again', LIMIT, async (t) => {
  const bad = badServer(tempFolder(t), 'unlisted')
  const server = await start(t, bad.config, { relistMs: 20 })
  assert.deepEqual(
    [server.state, server.missing, server.status.error],
    ['ready', 'it cannot list its tools: fetch failed', 'it cannot list its tools: fetch failed'],
  )
  bad.open()
  while (server.tools.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  assert.deepEqual([server.missing, server.status.error, said(await call(server))], [null, undefined, 'act done'])
  assert.equal(bad.ran('start'), 1)
})

test('401 tools on 41 pages are all offered', LIMIT, async (t) => {
  const server = await start(t, badServer(tempFolder(t), 'many').config)
  assert.equal(server.tools.length, 401)
  assert.equal(said(await call(server, 't400')), 't400 done')
})
