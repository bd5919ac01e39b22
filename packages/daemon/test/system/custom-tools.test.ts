/** The user's own tools when the outcome of a call is lost: what `effect` says decides whether it runs again. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import type { CustomToolConfig } from '@breakfall/engine'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

/** Its first run kills the keeper (its shell's parent), which would report its exit. Every run leaves a mark. */
const dying = (name: string, words = ''): readonly string[] => [
  'sh',
  '-c',
  `echo run >> ${name}; ${words} test "$(wc -l < ${name})" -gt 1 || { kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60; }; echo done`,
]

test('a lost call of a pure or idempotent tool runs again, unless it had printed something; an unsafe one never does', async (t) => {
  const workspace = tempFolder(t)
  const tools: Record<string, CustomToolConfig> = {
    pure: { command: dying('pure'), effect: 'pure' },
    idempotent: { command: dying('idempotent'), effect: 'idempotent' },
    printed: { command: dying('printed', 'echo half;'), effect: 'idempotent' },
    unsafe: { command: dying('unsafe'), effect: 'unsafe' },
    undeclared: { command: dying('undeclared') },
  }
  const names = Object.keys(tools)
  const script = inOrder(...names.map((tool) => ({ calls: [{ tool, arguments: {} }] })), { text: 'done' })
  const runner = { allowWorkspace: [workspace], isolation: 'process' } as const
  const { api } = await rig(t, script, { runner, tools, policy: { approve: 'never' } })
  const { id } = await api.session({ box: { workspace, isolation: { level: 'process' } } })
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const results = events.flatMap((event) => (event.type === 'tool-result' ? [event] : []))
  const runs = (name: string): number => {
    const file = join(workspace, name)
    return existsSync(file) ? readFileSync(file, 'utf8').split('run').length - 1 : 0
  }
  assert.deepEqual(
    results.map(({ outcome }, index) => [names[index], outcome, runs(names[index] ?? '')]),
    [
      ['pure', 'ok', 2],
      ['idempotent', 'ok', 2],
      ['printed', 'unknown', 1],
      ['unsafe', 'unknown', 1],
      ['undeclared', 'unknown', 1],
    ],
  )
  assert.equal(results[0]?.text, 'done')
})
