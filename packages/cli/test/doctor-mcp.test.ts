import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkMcp } from '../src/commands/doctor/settings.ts'

const since = '2026-11-18T00:00:00.000Z'

test('the doctor shows the state of each server in the running daemon; a failed server is a problem with its reason', async () => {
  const mcp = { good: { command: 'sh' }, bad: { command: 'sh' }, slow: { url: 'http://127.0.0.1:9' } }
  const findings = await checkMcp({ mcp, tools: {}, unset: [] }, process.env, [
    { name: 'good', state: 'ready', era: '2025-11-25', tools: 3, since },
    {
      name: 'bad',
      state: 'failed',
      era: null,
      tools: 0,
      since,
      error: 'The MCP server bad failed (it exited with code 7).',
    },
    { name: 'slow', state: 'starting', era: null, tools: 0, since },
  ])
  assert.deepEqual(
    findings.map(({ verdict, found }) => [verdict, found]),
    [
      ['ok', 'good: ready, 3 tools, MCP of 2025-11-25'],
      ['bad', 'bad: failed; The MCP server bad failed (it exited with code 7).'],
      ['warn', 'slow: starting'],
    ],
  )
})

test('without a daemon, the doctor looks for the command and for the variables', async () => {
  const mcp = { gone: { command: 'no-such-server' }, here: { command: 'sh' }, web: { url: 'http://127.0.0.1:9' } }
  const unset = [{ server: 'web', variable: 'WEB_TOKEN' }]
  const findings = await checkMcp({ mcp, tools: {}, unset }, process.env, [])
  assert.deepEqual(
    findings.map(({ verdict }) => verdict),
    ['bad', 'ok', 'warn'],
  )
  assert.equal(findings[1]?.found, 'here: configured (sh), not started here; "breakfall mcp list" tries it')
  assert.equal(findings[2]?.fix, 'set WEB_TOKEN')
})
