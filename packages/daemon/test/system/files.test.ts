import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { ofType } from '../../../engine/test/support/events.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

function workFolder(t: TestContext): string {
  const workspace = join(tempFolder(t), 'work')
  mkdirSync(workspace)
  return workspace
}

test(
  'a file in another encoding is read with a note, and an edit leaves all its other bytes alone',
  LIMIT,
  async (t) => {
    const workspace = workFolder(t)
    const file = join(workspace, 'Preise.properties')
    writeFileSync(file, Buffer.from('titel=Grüße aus Köln\npreis=10\n', 'latin1'))
    const path = 'Preise.properties'
    const script = inOrder(
      {
        calls: [
          { tool: 'read', arguments: { path } },
          { tool: 'edit', arguments: { path, old: 'preis=10', new: 'preis=12' } },
          { tool: 'edit', arguments: { path, old: 'preis=12', new: 'größe=12' } },
        ],
      },
      { text: 'done' },
    )
    const runner = await testRunner(t, { allowWorkspace: [workspace] })
    const { api } = await rig(t, script, { runner: runner.config })
    const { id } = await api.session({ box: { workspace } })
    const events = await api.ended(id, await api.prompt(id, 'go'))
    const results = ofType(events, 'tool-result')
    assert.deepEqual(
      results.map(({ outcome }) => outcome),
      ['ok', 'ok', 'failed'],
    )
    assert.match(results[0]?.text ?? '', /titel=Gr��e aus K�ln\npreis=10\n\[the file is not UTF-8/)
    assert.match(results[2]?.text ?? '', /mix two encodings/)
    assert.deepEqual(readFileSync(file), Buffer.from('titel=Grüße aus Köln\npreis=12\n', 'latin1'))
  },
)

test('an edit that never left is not taken for one that was made, when its turn is recovered', LIMIT, async (t) => {
  const workspace = workFolder(t)
  const content = 'export function f() {\n  return 1\n}\n'
  for (const name of ['a.ts', 'b.ts']) writeFileSync(join(workspace, name), content)
  const script = inOrder(
    { calls: [{ tool: 'bash', arguments: { command: 'true' } }] },
    {
      calls: [
        { tool: 'edit', arguments: { path: 'a.ts', old: 'return 2', new: '}' } },
        { tool: 'edit', arguments: { path: 'b.ts', old: 'return 1', new: '}' } },
      ],
    },
    { text: 'done' },
  )
  const runner = await testRunner(t, { allowWorkspace: [workspace] })
  const first = await rig(t, script, { runner: runner.config, policy: { backoffMs: 1, patienceMs: 60_000 } })
  const { id } = await first.api.session({ box: { workspace } })
  const turnId = await first.api.prompt(id, 'go')
  await first.api.events(id, ({ type }) => type === 'tool-result')
  await runner.stop()
  await first.api.events(id, ({ type }) => type === 'parked')
  const second = await first.restart()
  await runner.again(runner.port)
  const events = await second.api.ended(id, turnId)
  assert.deepEqual(
    ofType(events, 'tool-result').map(({ outcome }) => outcome),
    ['ok', 'failed', 'ok'],
  )
  assert.equal(readFileSync(join(workspace, 'a.ts'), 'utf8'), content)
  assert.equal(readFileSync(join(workspace, 'b.ts'), 'utf8'), content.replace('return 1', '}'))
})

test(
  'a file that somebody changed after an interrupted write is left as it is, and the outcome is unknown',
  LIMIT,
  async (t) => {
    const workspace = workFolder(t)
    const file = join(workspace, 'notes.txt')
    const script = inOrder(
      { calls: [{ tool: 'write', arguments: { path: 'notes.txt', content: 'from the model\n' } }] },
      { text: 'done' },
    )
    const runner = await testRunner(t, { allowWorkspace: [workspace] })
    const away = { isSet: false }
    const first = await rig(t, script, {
      runner: runner.config,
      policy: { backoffMs: 1 },
      failpoint: (name) => {
        if (name !== 'after:write' || away.isSet) return
        away.isSet = true
        writeFileSync(file, 'from a person\n')
        throw new Error('the answer to the write was lost')
      },
    })
    const { id } = await first.api.session({ box: { workspace } })
    const turnId = await first.api.prompt(id, 'go')
    const events = await first.api.ended(id, turnId)
    assert.deepEqual(
      ofType(events, 'tool-result').map(({ outcome }) => outcome),
      ['unknown'],
    )
    assert.equal(readFileSync(file, 'utf8'), 'from a person\n')
  },
)
