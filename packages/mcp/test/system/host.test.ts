/** Real servers of both eras and servers that are broken on purpose, through the host. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { badServer, isAlive, reference } from '../../../daemon/test/support/mcp.ts'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { McpHost, type McpLimits, type McpServer, type McpServerConfig } from '../../src/index.ts'
import { startHttpMcp } from '../http-server.ts'

const LIMIT = { timeout: 60_000 }

async function start(
  t: TestContext,
  config: McpServerConfig,
  more: { readonly stateDir?: string; readonly limits?: Partial<McpLimits>; readonly waits?: boolean } = {},
): Promise<{ host: McpHost; server: McpServer }> {
  const host = new McpHost({ stateDir: more.stateDir, limits: more.limits })
  atEnd(t, () => host.stop())
  host.configure({ s: config })
  if (more.waits !== false) await host.settled(20_000)
  const server = host.server('s')
  assert.ok(server !== undefined)
  return { host, server }
}

let keys = 0
const call = (server: McpServer, tool: string, given: Record<string, unknown> = {}) =>
  server.call(
    { tool: `mcp__s__${tool}`, arguments: given, key: `k${(keys += 1)}` },
    { signal: AbortSignal.timeout(30_000) },
  )
const textOf = (end: Awaited<ReturnType<typeof call>>): string => (end.kind === 'answered' ? end.text : end.kind)
const until = async (done: () => boolean): Promise<void> => {
  while (!done()) await new Promise((resolve) => setTimeout(resolve, 10))
}

test(
  'a server of 2026-07-28 and one of 2025 are told apart with one spawn each, and the verdict is remembered',
  LIMIT,
  async (t) => {
    const stateDir = tempFolder(t)
    const diary = join(stateDir, 'diary')
    const modern = {
      command: process.execPath,
      args: [fileURLToPath(new URL('../programs/modern-server.mjs', import.meta.url)), diary],
    }
    const starts = (): number => readFileSync(diary, 'utf8').split('start').length - 1
    for (const round of [1, 2]) {
      const { host, server } = await start(t, modern, { stateDir })
      assert.deepEqual([server.status.state, server.status.era, starts()], ['ready', '2026-07-28', round])
      assert.equal(textOf(await call(server, 'add', { a: 1, b: 2 })), '3')
      await host.stop()
    }
    assert.match(readFileSync(join(stateDir, 'mcp-eras.json'), 'utf8'), /"kind":"modern"/)
    const { server } = await start(t, reference('memory'), { stateDir })
    assert.equal(server.status.era, '2025-11-25')
  },
)

test('a server that dies of the era probe is one of 2025: its next start needs one spawn', LIMIT, async (t) => {
  const stateDir = tempFolder(t)
  const bad = badServer(stateDir, 'strict')
  const first = await start(t, bad.config, { stateDir })
  assert.deepEqual([first.server.status.state, bad.ran('start')], ['ready', 2])
  await first.host.stop()
  const { server } = await start(t, bad.config, { stateDir })
  assert.deepEqual([server.status.state, bad.ran('start')], ['ready', 3])
})

test('the filesystem server reads a file, and refuses one outside its folder', LIMIT, async (t) => {
  const folder = tempFolder(t)
  const { server } = await start(t, reference('filesystem', folder))
  await call(server, 'write_file', { path: join(folder, 'a.txt'), content: 'hello' })
  assert.match(textOf(await call(server, 'read_text_file', { path: join(folder, 'a.txt') })), /hello/)
  const refused = await call(server, 'read_text_file', { path: '/etc/hostname' })
  assert.ok(refused.kind === 'answered' && refused.isError)
})

test('a server that is killed ten times lists its tools again each time and answers', LIMIT, async (t) => {
  const bad = badServer(tempFolder(t))
  const { server } = await start(t, bad.config)
  for (let round = 1; round <= 10; round += 1) {
    const pid = bad.pid()
    process.kill(pid, 'SIGKILL')
    await until(() => server.state !== 'ready')
    assert.equal(textOf(await call(server, 'act', { n: round })), `act done ${round}`)
  }
  assert.deepEqual([bad.ran('start'), bad.ran('act')], [11, 10])
})

test('garbage on stdout is skipped and kept for the log', LIMIT, async (t) => {
  const { server } = await start(t, badServer(tempFolder(t), 'garbage').config)
  assert.equal(textOf(await call(server, 'act')), 'act done')
  assert.match(server.log.join('\n'), /stdout: Welcome to the server!/)
})

test('a line of 100 MiB ends the server within bounded memory, is named, and the call is unknown', LIMIT, async (t) => {
  const { server } = await start(t, badServer(tempFolder(t), 'long-line').config)
  const before = process.memoryUsage().rss
  const end = await call(server, 'act')
  assert.ok(end.kind === 'lost')
  assert.equal(end.fault.category, 'mcp_protocol_error')
  assert.match(end.fault.error, /more than 16 MiB on stdout/)
  assert.ok(process.memoryUsage().rss - before < 200 * 2 ** 20)
})

test('a server that reads no input is bounded and named', LIMIT, async (t) => {
  const { server } = await start(t, badServer(tempFolder(t), 'deaf').config, {
    limits: { inputBytesMax: 256 * 1024, callMs: 500 },
  })
  const filler = 'x'.repeat(200 * 1024)
  const ends = await Promise.all([call(server, 'act', { filler }), call(server, 'act', { filler })])
  assert.deepEqual(
    ends.map(({ kind }) => kind),
    ['lost', 'lost'],
  )
})

test('a flood on stderr, second answers and answers to nobody do no harm', LIMIT, async (t) => {
  const flood = await start(t, badServer(tempFolder(t), 'floods').config)
  assert.equal(textOf(await call(flood.server, 'act', { n: 1 })), 'act done 1')
  const twice = await start(t, badServer(tempFolder(t), 'twice').config)
  for (const n of [1, 2, 3]) assert.equal(textOf(await call(twice.server, 'act', { n })), `act done ${n}`)
})

test(
  'what a server started ends with it: a child that a dying server leaves behind, and a wrapped server',
  LIMIT,
  async (t) => {
    const bad = badServer(tempFolder(t), 'forks')
    const { server } = await start(t, bad.config)
    assert.equal((await call(server, 'act')).kind, 'lost')
    const child = Number(
      bad
        .lines()
        .find((line) => line.startsWith('child'))
        ?.split(' ')[1],
    )
    await until(() => !isAlive(child))
    const wrapped = badServer(tempFolder(t), 'stays')
    const words = [wrapped.config.command, ...wrapped.config.args].map((word) => `'${word}'`).join(' ')
    const { host } = await start(t, { command: 'sh', args: ['-c', `${words}; true`] })
    assert.ok(isAlive(wrapped.pid()))
    await host.stop()
    assert.equal(isAlive(wrapped.pid()), false)
  },
)

test('a cut response ends the call at once as unknown; 401 is refused credentials', LIMIT, async (t) => {
  const http = await startHttpMcp()
  atEnd(t, () => http.close())
  const { server } = await start(t, { url: http.url })
  http.behaviour = 'cut'
  const cut = await call(server, 'act')
  assert.deepEqual([cut.kind, cut.kind === 'lost' && cut.fault.category], ['lost', 'mcp_unreachable'])
  http.behaviour = '401'
  const refused = await call(server, 'act')
  assert.deepEqual([refused.kind, refused.kind === 'refused' && refused.fault.category], ['refused', 'mcp_auth_failed'])
})

test('a cancel of a task reaches the server', LIMIT, async (t) => {
  const http = await startHttpMcp('2026')
  atEnd(t, () => http.close())
  http.behaviour = 'task'
  const { server } = await start(t, { url: http.url })
  const stop = new AbortController()
  const end = server.call({ tool: 'mcp__s__act', arguments: {}, key: 'task' }, { signal: stop.signal })
  await until(() => http.seen.includes('tasks/get'))
  stop.abort()
  assert.equal((await end).kind, 'cancelled')
  assert.ok(http.seen.includes('tasks/cancel'))
})

test('progress resets the idle clock, and without progress the call ends', LIMIT, async (t) => {
  const slow = await start(t, { ...badServer(tempFolder(t), 'slow').config, callMs: 1_500 })
  assert.equal(textOf(await call(slow.server, 'act', { n: 3_500 })), 'act done 3500')
  const hangs = badServer(tempFolder(t), 'hangs')
  const hung = await start(t, { ...hangs.config, callMs: 300 })
  const end = await call(hung.server, 'act')
  assert.match(end.kind === 'lost' ? end.fault.error : end.kind, /did not answer in time; a stop request was sent\./)
  await until(() => hangs.ran('cancelled') === 1)
})

test('a call that reports progress forever still ends, at twelve times its limit', LIMIT, async (t) => {
  const slow = await start(t, { ...badServer(tempFolder(t), 'slow').config, callMs: 150 })
  assert.equal((await call(slow.server, 'act', { n: 60_000 })).kind, 'lost')
})
