import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logLine } from '../src/render/log-lines.ts'

const ids = { sessionId: '01a1e15e-9b05-7000-8000-000000000001', turnId: 't1', seq: 4 }

test("the daemon's log lines are readable text", () => {
  const shown = (fields: object): string =>
    logLine(`${JSON.stringify({ level: 40, time: 1763246436193, ...fields })}\n`)
  const lines = [
    { ...ids, category: 'model_rate_limited', resumeAt: '2025-11-15T22:50:36.193Z', msg: 'turn parked' },
    { ...ids, category: 'model_unreachable', resumeAt: null, msg: 'turn parked' },
    { ...ids, callId: 'c', tool: 'bash', execId: 'e', msg: 'tool called' },
    { url: 'http://127.0.0.1:1', msg: 'listening' },
    { mcp: { name: 'files', state: 'ready', tools: 2 }, msg: 'MCP server' },
    { mcp: { name: 'files', state: 'restarting', tools: 2, error: 'It failed.' }, msg: 'MCP server' },
    { err: { type: 'Fault', message: 'connection refused', stack: '…' }, msg: 'the runner is not reachable yet' },
  ].map(shown)
  const at = '2025-11-15 22:40:36 UTC  '
  assert.deepEqual(lines, [
    `${at}turn parked: model_rate_limited, until 2025-11-15 22:50:36 UTC (session 01a1e15e-9b05)`,
    `${at}turn parked: model_unreachable (session 01a1e15e-9b05)`,
    `${at}tool called: bash (session 01a1e15e-9b05)`,
    `${at}listening: http://127.0.0.1:1`,
    `${at}MCP server: files is ready, 2 tools`,
    `${at}MCP server: files is restarting: It failed.`,
    `${at}the runner is not reachable yet: connection refused`,
  ])
})

test('a line that is not a log line is unchanged', () => {
  for (const line of ['plain words', '{"no":"message"}', 'null', '{']) assert.equal(logLine(`${line}\n`), line)
})
