import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importedServers } from '../src/commands/mcp/import.ts'

test('servers of an mcpServers file become tables; what cannot be taken over is named', () => {
  const { tables, notes } = importedServers(
    {
      mcpServers: {
        'my files': { command: 'npx', args: ['-y', 'x', 3], env: { A: 1 } },
        web: { url: 'https://example.com/mcp', headers: { Authorization: 'Bearer abc', 'X-Key': '${env:KEY}' } },
        old: { type: 'sse', url: 'https://example.com/sse' },
        off: { command: 'x', disabled: true },
        known: { command: 'x' },
        empty: {},
      },
    },
    ['known'],
  )
  assert.deepEqual(tables, {
    'my-files': { command: 'npx', args: ['-y', 'x', '3'], env: { A: '1' } },
    web: { url: 'https://example.com/mcp', headersEnv: { Authorization: 'WEB_AUTHORIZATION', 'X-Key': 'KEY' } },
  })
  assert.deepEqual(
    notes.map((note) => note.split(' ')[0]),
    ['web:', 'old', 'off', 'known', 'empty'],
  )
  assert.doesNotMatch(JSON.stringify([tables, notes]), /abc/)
  assert.throws(() => importedServers([], []), /no table "mcpServers"/)
})
