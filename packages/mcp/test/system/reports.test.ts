/** What is said about servers that do not start, or end in a call: one reason each, whatever arrives first. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { badServer } from '../../../daemon/test/support/mcp.ts'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { McpHost, type McpServerConfig, type McpServer } from '../../src/index.ts'

const LIMIT = { timeout: 60_000, concurrency: false }

function startHost(t: TestContext, config: McpServerConfig): McpHost {
  const host = new McpHost()
  atEnd(t, () => host.stop())
  host.configure({ s: config })
  return host
}

function start(t: TestContext, config: McpServerConfig): McpServer {
  const host = startHost(t, config)
  const server = host.server('s')
  assert.ok(server !== undefined)
  return server
}

/** What the first attempt to start it said. */
async function firstReport(t: TestContext, config: McpServerConfig): Promise<string> {
  const server = start(t, config)
  await server.tried(AbortSignal.timeout(30_000))
  return server.missing ?? 'ready'
}

test('a server that exits at once is reported with its code and its last line, every time', LIMIT, async (t) => {
  const config = badServer(tempFolder(t), 'exits').config
  const reports = await Promise.all(Array.from({ length: 8 }, () => firstReport(t, config)))
  for (const report of reports)
    assert.match(report, /^The MCP server s failed \(it exited with code 7; its last line was: no licence file\)/)
})

test('a server that exits before it reads anything, and closes its stdin first', LIMIT, async (t) => {
  const report = await firstReport(t, { command: 'sh', args: ['-c', 'exec <&-; sleep 0.1; exit 9'] })
  assert.match(report, /failed \(it exited with code 9\)/)
})

test(
  'a host does not wait for a server that fails two starts in a row, but waits for the second start',
  LIMIT,
  async (t) => {
    const down = badServer(tempFolder(t), 'exits')
    const strict = startHost(t, badServer(tempFolder(t), 'strict').config)
    const host = startHost(t, down.config)
    const nowhere = startHost(t, { url: 'http://127.0.0.77:9009/mcp' })
    await Promise.all([host, strict, nowhere].map((each) => each.settled(10 * LIMIT.timeout)))
    assert.equal(host.server('s')?.state, 'restarting')
    assert.ok(down.ran('start') >= 2)
    assert.equal(strict.server('s')?.state, 'ready')
    assert.equal(nowhere.server('s')?.fault?.category, 'mcp_unreachable')
  },
)

test('a silent server is late, not broken', LIMIT, async (t) => {
  const report = await firstReport(t, { ...badServer(tempFolder(t), 'silent').config, startMs: 1_000 })
  assert.match(report, /failed \(it did not answer within 1 s\)/)
})

test('a server that closes its stdout and stays is ended and named', LIMIT, async (t) => {
  const report = await firstReport(t, { command: 'sh', args: ['-c', 'exec >&-; exec sleep 60'] })
  assert.match(report, /failed \(it closed its stdout\)/)
})

test('a server whose answers are not MCP has broken the protocol', LIMIT, async (t) => {
  const report = await firstReport(t, badServer(tempFolder(t), 'wrong-list').config)
  assert.match(report, /sent something that is not MCP \(its handshake failed: /)
})

test('a command that does not exist is named', LIMIT, async (t) => {
  assert.match(await firstReport(t, { command: 'no-such-server' }), /failed \(.*no-such-server/)
})

test('a server without tools is ready and offers none', LIMIT, async (t) => {
  const server = start(t, badServer(tempFolder(t), 'no-tools').config)
  await server.tried(AbortSignal.timeout(30_000))
  assert.deepEqual([server.state, server.tools], ['ready', []])
})

test('one tool that is not MCP is left out with a reason, and the others are offered', LIMIT, async (t) => {
  const server = start(t, badServer(tempFolder(t), 'odd-tool').config)
  await server.tried(AbortSignal.timeout(30_000))
  assert.deepEqual(
    [server.tools.map(({ tool }) => tool), server.detail.refused],
    [['act', 'look'], [{ tool: 'odd', because: 'its definition is not MCP' }]],
  )
})

test('a server that exits in a call: the fault has its exit code, every time', LIMIT, async (t) => {
  const bad = badServer(tempFolder(t), 'dies-in-call')
  const server = start(t, bad.config)
  for (let round = 1; round <= 5; round += 1) {
    bad.dieInNextCall()
    const end = await server.call(
      { tool: 'mcp__s__act', arguments: {}, key: `k${round}` },
      { signal: AbortSignal.timeout(30_000) },
    )
    assert.ok(end.kind === 'lost')
    assert.match(end.fault.error, /failed \(it exited with code 3\)/)
  }
})

test('an answer under a wrong id is dropped, and the call ends as unknown', LIMIT, async (t) => {
  const server = start(t, { ...badServer(tempFolder(t), 'wrong-ids').config, callMs: 300 })
  const end = await server.call(
    { tool: 'mcp__s__act', arguments: {}, key: 'k' },
    { signal: AbortSignal.timeout(30_000) },
  )
  assert.match(end.kind === 'lost' ? end.fault.error : end.kind, /did not answer in time/)
})
